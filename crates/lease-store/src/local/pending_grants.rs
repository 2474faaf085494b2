//! Grants whose callers have not received them yet, so that a dropped claim releases only what no other caller received.

use hashbrown::HashMap;
use tenure_lease::Generation;

/// Reigns with unreceived grants, by slot and generation.
#[derive(Debug, Default)]
pub(crate) struct PendingGrants(HashMap<(u32, Generation), PendingGrant>);

/// One reign, and how many claims with its token await it.
#[derive(Debug, Default)]
struct PendingGrant {
    claims: u32,
    received: bool,
}

impl PendingGrants {
    /// A claim began a reign.
    pub(crate) fn begin(&mut self, at: u32, generation: Generation) {
        self.0.insert((at, generation), PendingGrant { claims: 1, received: false });
    }

    /// A claim joined the reign that its token has. Without other pending claims, its holder has received it before.
    pub(crate) fn join(&mut self, at: u32, generation: Generation) {
        let pending = self.0.entry((at, generation)).or_insert(PendingGrant { claims: 0, received: true });
        pending.claims += 1;
    }

    /// A caller without a pending claim has received this reign, or may acquire it again.
    pub(crate) fn mark_received(&mut self, at: u32, generation: Generation) {
        if let Some(pending) = self.0.get_mut(&(at, generation)) {
            pending.received = true;
        }
    }

    /// A claim received its grant.
    pub(crate) fn confirm(&mut self, at: u32, generation: Generation) {
        if let Some(pending) = self.0.get_mut(&(at, generation)) {
            pending.received = true;
            pending.claims -= 1;
            if pending.claims == 0 {
                self.0.remove(&(at, generation));
            }
        }
    }

    /// A claim was dropped before it received its grant. Returns whether no caller has or awaits the reign.
    pub(crate) fn abandon(&mut self, at: u32, generation: Generation) -> bool {
        let Some(pending) = self.0.get_mut(&(at, generation)) else { return false };
        pending.claims -= 1;
        let (last, received) = (pending.claims == 0, pending.received);
        if last {
            self.0.remove(&(at, generation));
        }
        last && !received
    }
}
