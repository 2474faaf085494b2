//! Limits chat and data messages per seat.

use std::collections::HashMap;

use tenure_lease::Tick;
use tenure_meet_wire::Id;

use crate::RateLimit;
use crate::meeting::{Meeting, Request};
use crate::rate_limit::TokenBucket;

pub(super) struct ChatLimiter {
    limit: RateLimit,
    buckets: HashMap<Id, TokenBucket>,
}

impl ChatLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self { limit, buckets: HashMap::new() }
    }

    /// Whether the participant may send this request now. Other requests are not limited.
    pub(super) fn allows(&mut self, participant: Id, request: &Request, state: &Meeting, now: Tick) -> bool {
        if !matches!(request, Request::Chat { .. } | Request::Data { .. }) {
            return true;
        }
        if self.buckets.len() > state.seats.len() {
            self.buckets.retain(|participant, _| state.seats.contains_key(participant));
        }
        self.buckets.entry(participant).or_insert(TokenBucket::new(now)).take(self.limit, now)
    }
}
