//! One-time login codes.

use std::collections::VecDeque;
use std::time::Duration;

use super::LOGIN_CODE_LIFE;
use super::secret::Digest;
use crate::scope::Scopes;

/// Unused login codes. The oldest is evicted for a new one.
#[derive(Debug)]
pub(super) struct Codes {
    most: usize,
    codes: VecDeque<(Digest, Code)>,
}

#[derive(Debug)]
struct Code {
    name: String,
    scopes: Scopes,
    until: Duration,
}

impl Codes {
    pub(super) fn new(most: usize) -> Self {
        Self { most, codes: VecDeque::new() }
    }

    pub(super) fn insert(&mut self, digest: Digest, name: String, scopes: Scopes, now: Duration) {
        self.codes.retain(|(_, code)| code.until > now);
        if self.codes.len() >= self.most {
            self.codes.pop_front();
        }
        self.codes.push_back((digest, Code { name, scopes, until: now + LOGIN_CODE_LIFE }));
    }

    /// Uses a code: its name and scopes, if it is known and has not expired.
    pub(super) fn redeem(&mut self, digest: &Digest, now: Duration) -> Option<(String, Scopes)> {
        self.codes.retain(|(_, code)| code.until > now);
        let at = self.codes.iter().position(|(known, _)| known.matches(digest).into())?;
        self.codes.remove(at).map(|(_, code)| (code.name, code.scopes))
    }
}
