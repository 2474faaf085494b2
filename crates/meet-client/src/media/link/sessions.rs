//! Sessions: which are opened, which is active, and when one is replaced.

use std::collections::BTreeMap;
use std::sync::Arc;

use tenure_meet_wire::media::message::Activate;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::signaling::{MediaServerInfo, MediaServerRole, MhConnectionState, MhConnectionStatus};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::super::failover::{Candidate, Decision, decide};
use super::super::limits;
use super::super::session::{HELLO_SEQ, Port, SessionId, SessionTask};
use super::{Link, Pending, Server, SessionEntry};
use crate::backoff;

impl Link {
    /// The controller named handlers, with new grants. Sessions that work are kept.
    pub(super) fn take_servers(&mut self) {
        let named_at = self.clock.now();
        let named = self.named.borrow_and_update().clone();
        self.servers = named.into_iter().map(|info| Server { info, named_at, used: false }).collect();
        // The primary is dialed first, and the first session carries media.
        self.servers.sort_by_key(|server| server.info.role() == MediaServerRole::Backup);
        for session in &mut self.sessions {
            if !self.servers.iter().any(|server| server.info.media_handler_url == session.url) {
                session.leaving = true;
                if self.active != Some(session.id) {
                    session.close_at = Some(named_at);
                }
            }
        }
        self.dial_missing();
    }

    /// Opens a session with each handler that has none.
    pub(super) fn dial_missing(&mut self) {
        let now = self.clock.now();
        let mut needs_grants = false;
        for at in 0..self.servers.len() {
            let server = &mut self.servers[at];
            let url = &server.info.media_handler_url;
            if self.sessions.iter().any(|it| it.url == *url && it.close_at.is_none())
                || self.sessions.len() >= limits::SESSIONS
            {
                continue;
            }
            let stale = server.used || now.since(server.named_at) > limits::GRANT_LIFE;
            if stale || server.info.media_grant.is_empty() {
                needs_grants = true;
                continue;
            }
            server.used = true;
            let info = server.info.clone();
            self.open(info);
        }
        if needs_grants {
            self.request_grants();
        }
    }

    fn open(&mut self, server: MediaServerInfo) {
        let id = self.next_id();
        // The first session carries media whatever its role is; a later one stands by.
        let standby = self.sessions.iter().any(|session| session.close_at.is_none());
        let port = Arc::new(Port::new(id, self.clock.now()));
        let (requests, inbox) = mpsc::channel(limits::REQUESTS);
        let (url, cancel) = (server.media_handler_url.clone(), CancellationToken::new());
        let task = SessionTask {
            port: port.clone(),
            server,
            standby,
            dial: self.dial.clone(),
            traceparent: self.options.traceparent.clone(),
            clock: self.clock.clone(),
            inboxes: self.inboxes.clone(),
            requests: inbox,
            events: self.event_sender.clone(),
            cancel: cancel.clone(),
        };
        self.tasks.spawn(task.run());
        self.sessions.push(SessionEntry {
            id,
            url,
            port,
            standby,
            leaving: false,
            transport: None,
            requests,
            seq: HELLO_SEQ,
            next_alias: 0,
            pending: BTreeMap::new(),
            published: BTreeMap::new(),
            needed: BTreeMap::new(),
            subscribed: BTreeMap::new(),
            close_at: None,
            cancel,
            reported: None,
        });
    }

    /// A session was welcomed: it learns of everything that is published and subscribed.
    pub(super) fn opened(&mut self, at: usize) {
        self.failures = 0;
        for id in self.publications.keys().copied().collect::<Vec<_>>() {
            self.announce(at, id);
        }
        for id in self.subscriptions.keys().copied().collect::<Vec<_>>() {
            self.ask(at, id);
        }
        self.report_connections(at, MhConnectionState::Connected, "");
        self.show();
    }

    /// Changes the active session when that is due.
    pub(super) fn decide(&mut self) {
        let now = self.clock.now();
        let candidates: Vec<Candidate> = self
            .sessions
            .iter()
            .filter(|session| session.close_at.is_none())
            .map(|session| Candidate {
                id: session.id,
                open: session.is_open(),
                standby: session.standby,
                leaving: session.leaving,
                silent: session.port.silent(now),
            })
            .collect();
        match decide(self.active, &candidates) {
            Decision::Keep => {}
            Decision::Use(id) => self.activate(id),
            Decision::Close(id) => {
                if let Some(session) = self.sessions.iter().find(|session| session.id == id) {
                    session.cancel.cancel();
                }
            }
        }
    }

    fn activate(&mut self, id: SessionId) {
        let now = self.clock.now();
        if let Some(old) = self.sessions.iter().position(|it| Some(it.id) == self.active) {
            let silent = self.sessions[old].port.silent(now) > limits::SILENCE;
            self.sessions[old].close_at = Some(now + limits::LINGER);
            if silent {
                self.report_connections(old, MhConnectionState::Failed, "silent");
            }
        }
        let Some(session) = self.sessions.iter_mut().find(|session| session.id == id) else { return };
        self.active = Some(id);
        if std::mem::take(&mut session.standby) {
            session.request(Request::Activate(Activate {}), Pending::Nothing);
        }
        self.inboxes.set_active(self.active);
        for publication in self.publications.values() {
            publication.state.set_active(self.active);
        }
        self.state.send_modify(|state| {
            state.activations += 1;
            state.goaway = None;
        });
        self.show();
    }

    pub(super) fn lost(&mut self, at: usize, why: String, code: Option<u32>) {
        tracing::debug!(target: "meet_client", url = self.sessions[at].url, why, code, "media session ended");
        let closed_here = self.sessions[at].close_at.is_some() || code == Some(0);
        let state = if closed_here { MhConnectionState::Closed } else { MhConnectionState::Failed };
        self.report_connections(at, state, &why);
        let session = self.sessions.remove(at);
        for publication in self.publications.values() {
            publication.state.remove_route(session.id);
        }
        for id in session.needed.keys() {
            self.update_demand(*id);
        }
        if self.active == Some(session.id) {
            self.active = None;
            self.inboxes.set_active(None);
            for publication in self.publications.values() {
                publication.state.set_active(None);
            }
        }
        self.state.send_modify(|state| state.lost = Some(why));
        self.show();
        let wait = backoff::wait(self.failures, &*self.options.entropy);
        self.failures += 1;
        self.retry_at = Some(self.clock.now() + wait);
    }

    fn show(&self) {
        let url = |session: &SessionEntry| session.url.clone();
        let active = self.sessions.iter().find(|it| Some(it.id) == self.active).map(url);
        let is_backup =
            |it: &&SessionEntry| it.is_open() && it.close_at.is_none() && Some(it.id) != self.active;
        let standby: Vec<String> = self.sessions.iter().filter(is_backup).map(url).collect();
        self.state.send_if_modified(|state| {
            let changed = state.active != active || state.standby != standby;
            (state.active, state.standby) = (active, standby);
            changed
        });
    }

    fn request_grants(&mut self) {
        let now = self.clock.now();
        if self.granted_at.is_some_and(|at| now.since(at) < limits::GRANT_REQUEST) {
            self.retry_at = Some(now + limits::GRANT_REQUEST);
            return;
        }
        self.granted_at = Some(now);
        // In case the answer does not come.
        self.retry_at = Some(now + limits::GRANT_REQUEST * 2);
        let controller = self.controller.clone();
        self.tasks.spawn(async move { controller.request_grants().await });
    }

    /// The controller learns how a handler is reached, so that it can replace one.
    fn report_connections(&mut self, at: usize, state: MhConnectionState, why: &str) {
        let session = &mut self.sessions[at];
        if session.reported == Some(state) || session.reported == Some(MhConnectionState::Failed) {
            return;
        }
        session.reported = Some(state);
        let mut status = MhConnectionStatus {
            mh_url: session.url.clone(),
            observed_at: self.clock.wall().as_millis(),
            ..MhConnectionStatus::default()
        };
        status.set_state(state);
        if !why.is_empty() {
            status.failure_reason = Some(why.chars().take(200).collect());
        }
        let controller = self.controller.clone();
        self.tasks.spawn(async move { controller.report(vec![status]).await });
    }
}
