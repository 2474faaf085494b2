//! A door that does as a test says.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use meet_client::door::Admission;
use meet_client::{Door, DoorError, Place};
use meet_wire::jwt::Role;
use parking_lot::Mutex;

use crate::venue::{MEETING, Seats};

/// The door for one user.
pub struct Usher {
    seats: Seats,
    user: String,
    role: Role,
    place: Mutex<Place>,
    troubles: Mutex<VecDeque<DoorError>>,
    /// Said instead of a good token.
    token: Mutex<Option<String>>,
    asked: Mutex<u64>,
    reports: Mutex<Vec<String>>,
}

impl Usher {
    /// The door for a user, who finds the meeting at a place.
    pub fn new(seats: Seats, user: &str, role: Role, place: Place) -> Arc<Self> {
        Arc::new(Self {
            seats,
            user: user.to_owned(),
            role,
            place: Mutex::new(place),
            troubles: Mutex::default(),
            token: Mutex::default(),
            asked: Mutex::default(),
            reports: Mutex::default(),
        })
    }

    /// The same in memory, under a name.
    pub fn at(seats: Seats, user: &str, role: Role, url: &str) -> Arc<Self> {
        Self::new(seats, user, role, Place { url: url.to_owned(), hashes: Vec::new() })
    }

    /// The meeting is there from now on.
    pub fn moved(&self, url: &str) {
        self.place.lock().url = url.to_owned();
    }

    /// Fails with these first.
    pub fn fail(&self, troubles: &[DoorError]) {
        self.troubles.lock().extend(troubles.iter().cloned());
    }

    /// Gives this token, or good ones again.
    pub fn give(&self, token: Option<&str>) {
        *self.token.lock() = token.map(str::to_owned);
    }

    /// How often it was asked.
    pub fn asked(&self) -> u64 {
        *self.asked.lock()
    }

    /// What was reported to be unreachable.
    pub fn reports(&self) -> Vec<String> {
        self.reports.lock().clone()
    }
}

#[async_trait]
impl Door for Usher {
    async fn admit(&self) -> Result<Admission, DoorError> {
        *self.asked.lock() += 1;
        if let Some(trouble) = self.troubles.lock().pop_front() {
            return Err(trouble);
        }
        let token = match self.token.lock().clone() {
            Some(token) => token,
            None => self
                .seats
                .token(&self.user, self.role)
                .map_err(|error| DoorError::Unavailable(error.to_string()))?,
        };
        let place = self.place.lock().clone();
        Ok(Admission { meeting_id: MEETING.to_owned(), token, mc_id: place.url.clone(), place })
    }

    async fn unreachable(&self, admission: &Admission, why: &str) {
        self.reports.lock().push(format!("{}: {why}", admission.mc_id));
    }
}
