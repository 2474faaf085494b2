//! An operator who wipes what dead holders left.

use tenure_lease::{Acquired, Claim, Holder, Key, Phase, Prefix, Proof, Release, Token, Ttl, Wipe, Wiped};
use tenure_store::redis_protocol::acquire::Queue;
use tenure_store::redis_protocol::release::ReleaseRequest;

use super::simulation::{KEYS, MS, RedisSimulation};
use crate::disk::operation::{failed, id, unknown};
use crate::history::{Answer, Call, CallVerb, Outcome, What};

/// The operator calls through the first client.
const OPERATOR: usize = 0;

impl RedisSimulation {
    /// Wipes every lease that the server lists. Their holders are known to be dead; a holder that the server has
    /// forgotten is not.
    pub(super) fn wipe(&mut self) {
        let Some(gate) = self.take_gate() else { return };
        self.time.advance(MS);
        self.stop_listed_holders();
        let Ok(prefix) = Prefix::new("k/") else { return };
        self.ops += 1;
        let op = self.ops;
        let call = Call {
            verb: CallVerb::Wipe,
            key: prefix.to_string(),
            token: Some(id(&gate.token)),
            generation: Some(gate.generation.get()),
            holder: Some(gate.key.to_string()),
            ttl: None,
            wait: None,
        };
        self.note(What::Invoked { op, client: OPERATOR as u32, call });
        let now = self.now();
        let wipe = Wipe { prefix, gate: gate.clone() };
        let answer = match self.clients[OPERATOR].wipe(&mut self.cluster, now, &wipe) {
            Ok(Wiped::Wiped { .. }) => word(Outcome::Ok, "wiped"),
            Ok(Wiped::Unproven) => unknown("unproven"),
            Err(error) => failed(&error),
        };
        self.note(What::Returned { op, answer });
        let release = ReleaseRequest::from(Release::new(gate.key, gate.token));
        drop(self.clients[OPERATOR].release(&mut self.cluster, now, &release, false));
        self.collect_wake_ups();
    }

    fn take_gate(&mut self) -> Option<Proof> {
        let (key, holder) = (Key::new("gate").ok()?, Holder::new("operator").ok()?);
        let (token, ttl) = (Token::random(&self.entropy), Ttl::from_millis(10_000).ok()?);
        let claim = Claim::new(key.clone(), holder, token.clone(), ttl).remote();
        let now = self.now();
        match self.clients[OPERATOR].acquire(&mut self.cluster, now, &claim, Queue::Skip) {
            Ok(Acquired::Granted(grant)) => Some(Proof { key, token, generation: grant.lease.generation }),
            _ => None,
        }
    }

    fn stop_listed_holders(&mut self) {
        for number in 0..KEYS {
            let now = self.now();
            let Ok(key) = Key::new(format!("k/{number}")) else { continue };
            let Ok(status) = self.clients[OPERATOR].inspect(&mut self.cluster, now, &key) else { continue };
            let dead = self.beliefs.iter().filter(|belief| {
                status.phase == Phase::Held
                    && belief.key == status.key
                    && Some(belief.generation) == status.generation
            });
            for token in dead.map(|belief| belief.token.clone()).collect::<Vec<_>>() {
                self.stop_acting(&token);
            }
        }
    }
}

fn word(outcome: Outcome, word: &'static str) -> Answer {
    Answer { outcome, word: word.into(), generation: None, why: None }
}
