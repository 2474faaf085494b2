//! A join API scripted by a test.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tenure_meet_client::join_api::{Admission, Home, UnreachableReport};
use tenure_meet_client::{Endpoint, JoinApi, JoinApiError};
use tenure_meet_wire::jwt::Role;
use tokio::sync::watch;

use crate::meeting::{MEETING, TestTokens};

/// The join API as one user sees it.
pub struct ScriptedJoinApi {
    tokens: TestTokens,
    user: String,
    role: Role,
    place: Mutex<Endpoint>,
    generation: Mutex<u64>,
    failures: Mutex<VecDeque<JoinApiError>>,
    /// Returned instead of a valid token.
    token: Mutex<Option<String>>,
    calls: Mutex<u64>,
    reports: Mutex<Vec<UnreachableReport>>,
    /// The home that the next decisions name.
    home: Mutex<Option<Home>>,
    /// Whether decisions wait.
    held: watch::Sender<bool>,
}

impl ScriptedJoinApi {
    /// A join API that sends `user` to `place`.
    pub fn new(tokens: TestTokens, user: &str, role: Role, place: Endpoint) -> Arc<Self> {
        Arc::new(Self {
            tokens,
            user: user.to_owned(),
            role,
            place: Mutex::new(place),
            generation: Mutex::default(),
            failures: Mutex::default(),
            token: Mutex::default(),
            calls: Mutex::default(),
            reports: Mutex::default(),
            home: Mutex::default(),
            held: watch::Sender::new(false),
        })
    }

    /// A join API that sends `user` to a meeting on the in-memory transport.
    pub fn in_memory(tokens: TestTokens, user: &str, role: Role, url: &str) -> Arc<Self> {
        Self::new(tokens, user, role, Endpoint { url: url.to_owned(), hashes: Vec::new() })
    }

    /// Changes the meeting's endpoint.
    pub fn set_endpoint(&self, url: &str) {
        self.place.lock().url = url.to_owned();
    }

    /// Changes the meeting's endpoint and its generation.
    pub fn set_home(&self, home: Home) {
        *self.place.lock() = home.place;
        *self.generation.lock() = home.generation;
    }

    /// Fails the next calls with these errors, in order.
    pub fn fail_with(&self, failures: &[JoinApiError]) {
        self.failures.lock().extend(failures.iter().cloned());
    }

    /// Returns this token instead of valid ones; `None` ends it.
    pub fn set_token(&self, token: Option<&str>) {
        *self.token.lock() = token.map(str::to_owned);
    }

    /// Joins requested so far.
    pub fn call_count(&self) -> u64 {
        *self.calls.lock()
    }

    /// Reports of unreachable controllers so far.
    pub fn reports(&self) -> Vec<UnreachableReport> {
        self.reports.lock().clone()
    }

    /// Lets reports wait for their decision, or answers them.
    pub fn hold_decisions(&self, hold: bool) {
        self.held.send_replace(hold);
    }

    /// Answers reports with this home; `None` names none.
    pub fn decide(&self, home: Option<Home>) {
        *self.home.lock() = home;
    }
}

#[async_trait]
impl JoinApi for ScriptedJoinApi {
    async fn admit(&self) -> Result<Admission, JoinApiError> {
        *self.calls.lock() += 1;
        if let Some(failure) = self.failures.lock().pop_front() {
            return Err(failure);
        }
        let token = match self.token.lock().clone() {
            Some(token) => token,
            None => self
                .tokens
                .token(&self.user, self.role)
                .map_err(|error| JoinApiError::Unavailable(error.to_string()))?,
        };
        let place = self.place.lock().clone();
        let mc_id = place.url.clone();
        Ok(Admission {
            meeting_id: MEETING.to_owned(),
            token,
            mc_id,
            place,
            generation: *self.generation.lock(),
        })
    }

    async fn unreachable(
        &self,
        _admission: &Admission,
        report: UnreachableReport,
    ) -> Result<Option<Home>, JoinApiError> {
        self.reports.lock().push(report);
        let mut held = self.held.subscribe();
        if held.wait_for(|held| !held).await.is_err() {
            return Ok(None);
        }
        Ok(self.home.lock().clone())
    }
}
