//! Limits the requests of a seat.

use std::collections::HashMap;

use tenure_lease::Tick;
use tenure_meet_wire::Id;

use crate::RateLimit;
use crate::meeting::Meeting;
use crate::rate_limit::TokenBucket;

pub(super) struct RequestLimiter {
    limit: RateLimit,
    buckets: HashMap<Id, TokenBucket>,
}

impl RequestLimiter {
    pub(super) fn new(limit: RateLimit) -> Self {
        Self { limit, buckets: HashMap::new() }
    }

    /// Whether the participant may send a request now.
    pub(super) fn allows(&mut self, participant: Id, state: &Meeting, now: Tick) -> bool {
        if self.buckets.len() > state.seats.len() {
            self.buckets.retain(|participant, _| state.seats.contains_key(participant));
        }
        self.buckets.entry(participant).or_insert(TokenBucket::new(now)).take(self.limit, now)
    }
}
