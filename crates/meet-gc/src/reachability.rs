//! Which controllers this global controller has seen, and which of them stopped answering.

use std::collections::HashMap;

use parking_lot::Mutex;
use tenure_lease::Tick;
use tenure_meet_rpc::NodeInfo;

use crate::limits;
use crate::registry::Node;

/// What is known of one controller.
#[derive(Clone, Debug)]
struct Sighting {
    node_info: NodeInfo,
    /// When it last held its lease.
    registered: Tick,
    /// When it did not answer a probe; none once it answered again.
    failed: Option<Tick>,
}

/// The controllers seen lately, and the ownerships that were found dead. Bounded by [`limits::NODES`] and
/// [`limits::CONDEMNED`].
#[derive(Default)]
pub(crate) struct Reachability {
    seen: Mutex<HashMap<String, Sighting>>,
    /// Generations of meetings whose owner is dead, and until when that is remembered.
    condemned: Mutex<HashMap<(String, u64), Tick>>,
}

impl Reachability {
    /// These controllers hold their leases.
    pub(crate) fn registered(&self, nodes: &[Node], now: Tick) {
        let mut seen = self.seen.lock();
        seen.retain(|_, sighting| now.since(sighting.registered) < limits::SEEN);
        for node in nodes {
            if seen.len() >= limits::NODES && !seen.contains_key(&node.id) {
                continue;
            }
            let failed = seen.get(&node.id).and_then(|sighting| sighting.failed);
            let sighting = Sighting { node_info: node.node_info.clone(), registered: now, failed };
            seen.insert(node.id.clone(), sighting);
        }
    }

    pub(crate) fn failed(&self, mc_id: &str, now: Tick) {
        if let Some(sighting) = self.seen.lock().get_mut(mc_id) {
            sighting.failed = Some(now);
        }
    }

    pub(crate) fn answered(&self, mc_id: &str) {
        if let Some(sighting) = self.seen.lock().get_mut(mc_id) {
            sighting.failed = None;
        }
    }

    /// Whether a controller failed a probe a moment ago.
    pub(crate) fn is_failing(&self, mc_id: &str, now: Tick) -> bool {
        let seen = self.seen.lock();
        seen.get(mc_id).is_some_and(|sighting| sighting.failing(now))
    }

    /// Where a controller was last registered.
    pub(crate) fn grpc_endpoint(&self, mc_id: &str) -> Option<String> {
        self.seen.lock().get(mc_id).map(|sighting| sighting.node_info.grpc_endpoint.clone())
    }

    /// Whether more than half of the region's controllers vanished within [`limits::VANISHED`]: they failed a probe, or
    /// lost their lease.
    pub(crate) fn many_vanished(&self, region: &str, now: Tick) -> bool {
        let seen = self.seen.lock();
        let of_region = seen.values().filter(|known| region.is_empty() || known.node_info.region == region);
        let (mut all, mut vanished) = (0, 0);
        for sighting in of_region {
            all += 1;
            vanished += usize::from(sighting.failing(now) || now.since(sighting.registered) > limits::MISSED);
        }
        vanished * 2 > all
    }

    /// Remembers that the owner of a generation is dead, so that it is never named again.
    pub(crate) fn condemn(&self, meeting: &str, generation: u64, now: Tick) {
        let mut condemned = self.condemned.lock();
        condemned.retain(|_, until| *until > now);
        if condemned.len() < limits::CONDEMNED {
            condemned.insert((meeting.to_owned(), generation), now + limits::CONDEMNED_FOR);
        }
    }

    pub(crate) fn is_condemned(&self, meeting: &str, generation: u64, now: Tick) -> bool {
        let condemned = self.condemned.lock();
        condemned.get(&(meeting.to_owned(), generation)).is_some_and(|until| *until > now)
    }
}

impl Sighting {
    fn failing(&self, now: Tick) -> bool {
        self.failed.is_some_and(|at| now.since(at) < limits::VANISHED)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::registry::Load;

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    fn nodes(ids: &[&str]) -> Vec<Node> {
        let node_info = NodeInfo { region: "r".to_owned(), ..NodeInfo::default() };
        let node = |id: &&str| Node {
            id: (*id).to_owned(),
            node_info: node_info.clone(),
            load: Load::default(),
            reserved: 0,
        };
        ids.iter().map(node).collect()
    }

    #[test]
    fn more_than_half_of_the_controllers_must_vanish() {
        let reachability = Reachability::default();
        reachability.registered(&nodes(&["a", "b", "c", "d"]), at(0));
        reachability.failed("a", at(0));
        reachability.failed("b", at(0));
        assert!(!reachability.many_vanished("r", at(0)), "half");
        reachability.failed("c", at(0));
        assert!(reachability.many_vanished("r", at(0)));
        reachability.answered("c");
        assert!(!reachability.many_vanished("r", at(0)));
        reachability.failed("c", at(1));
        reachability.registered(&nodes(&["a", "b", "c", "d"]), at(11));
        assert!(!reachability.many_vanished("r", at(11)), "the failures are old");
    }

    #[test]
    fn controllers_that_lost_their_leases_have_vanished_until_they_are_forgotten() {
        let reachability = Reachability::default();
        reachability.registered(&nodes(&["a", "b", "c"]), at(0));
        let later = at(0) + limits::MISSED + Duration::from_secs(1);
        reachability.registered(&nodes(&["a"]), later);
        assert!(reachability.many_vanished("r", later));
        let much_later = at(0) + limits::SEEN + Duration::from_secs(1);
        reachability.registered(&nodes(&["a"]), much_later);
        assert!(!reachability.many_vanished("r", much_later));
        assert_eq!(reachability.grpc_endpoint("b"), None);
    }

    #[test]
    fn a_dead_owner_is_remembered_for_its_generation_only() {
        let reachability = Reachability::default();
        reachability.condemn("m", 3, at(0));
        assert!(reachability.is_condemned("m", 3, at(1)));
        assert!(!reachability.is_condemned("m", 4, at(1)));
        assert!(!reachability.is_condemned("m", 3, at(0) + limits::CONDEMNED_FOR));
    }
}
