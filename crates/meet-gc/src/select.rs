//! Node selection. Pure: no waiting, no clock and no randomness of its own.
//!
//! Uses the power of two choices: the least loaded node of all would get every meeting until its next report.

use tenure_meet_wire::internal::HealthStatus;

use crate::limits;
use crate::registry::Node;

/// Returns a random number below the argument.
pub(crate) type RandomIndex<'a> = &'a mut dyn FnMut(usize) -> usize;

/// The location of a meeting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Location<'a> {
    pub(crate) region: &'a str,
    pub(crate) zone: &'a str,
}

/// The handlers of a meeting: the first is the primary, the second the backup.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct HandlerSelection<'a> {
    pub(crate) ranked: Vec<&'a Node>,
    /// Both share a zone, or there is only one.
    pub(crate) degraded: bool,
}

/// Selects a controller for a meeting, excluding those already tried.
pub(crate) fn controller<'a>(
    nodes: &'a [Node],
    region: &str,
    tried: &[String],
    chance: RandomIndex<'_>,
) -> Option<&'a Node> {
    let takes = |node: &&Node| {
        let well = !matches!(node.load.health(), HealthStatus::Unhealthy | HealthStatus::Draining);
        well && !tried.contains(&node.id) && node.fill(0) < 1.0
    };
    let usable: Vec<&Node> = nodes.iter().filter(takes).collect();
    let usable = preferring(usable, |node| region.is_empty() || node.node_info.region == region);
    let usable = preferring(usable, |node| node.fill(node.reserved) < limits::BUSY);
    two_choices(&usable, |node| -node.fill(node.reserved), chance)
}

/// Selects handlers near the controller of a meeting.
pub(crate) fn handlers<'a>(
    nodes: &'a [Node],
    near: Location<'_>,
    failed: &[String],
    chance: RandomIndex<'_>,
) -> Option<HandlerSelection<'a>> {
    let takes = |node: &&Node| !failed.contains(&node.id) && node.flow(0) < 1.0 && score(node, near) > 0.0;
    let usable: Vec<&Node> = nodes.iter().filter(takes).collect();
    let here = preferring(usable.clone(), |node| node.node_info.region == near.region);
    let primary = two_choices(&here, |node| score(node, near), chance)?;
    let others = usable.into_iter().filter(|node| node.id != primary.id).collect();
    let elsewhere = |node: &Node| {
        (&node.node_info.region, &node.node_info.zone) != (&primary.node_info.region, &primary.node_info.zone)
    };
    let others = preferring(others, elsewhere);
    let others = preferring(others, |node| node.node_info.region == near.region);
    let backup = two_choices(&others, |node| score(node, near), chance);
    let degraded = !backup.is_some_and(elsewhere);
    Some(HandlerSelection { ranked: [Some(primary), backup].into_iter().flatten().collect(), degraded })
}

/// Scores a handler by health, free capacity and proximity.
pub(crate) fn score(node: &Node, near: Location<'_>) -> f64 {
    let health = match node.load.health() {
        HealthStatus::Healthy => 1.0,
        // A node that has not reported yet is assumed to be idle.
        HealthStatus::Degraded | HealthStatus::Pending => 0.5,
        HealthStatus::Unhealthy | HealthStatus::Draining => 0.0,
    };
    let place = match () {
        () if node.node_info.region == near.region && node.node_info.zone == near.zone => 1.2,
        () if node.node_info.region == near.region => 1.1,
        () => 1.0,
    };
    health * (1.0 - node.flow(node.reserved).min(1.0) * 0.5) * place
}

/// The nodes that satisfy the predicate, or all of them if none does.
fn preferring(nodes: Vec<&Node>, holds: impl Fn(&Node) -> bool) -> Vec<&Node> {
    let (fit, rest): (Vec<&Node>, Vec<&Node>) = nodes.into_iter().partition(|node| holds(node));
    if fit.is_empty() { rest } else { fit }
}

/// The better of two random nodes.
fn two_choices<'a>(
    nodes: &[&'a Node],
    worth: impl Fn(&Node) -> f64,
    chance: RandomIndex<'_>,
) -> Option<&'a Node> {
    match nodes {
        [] => None,
        [only] => Some(only),
        _ => {
            let one = chance(nodes.len());
            let other = chance(nodes.len() - 1);
            let other = if other >= one { other + 1 } else { other };
            let (one, other) = (nodes[one], nodes[other]);
            Some(if worth(other) > worth(one) { other } else { one })
        }
    }
}

#[cfg(test)]
mod tests {
    use tenure_meet_rpc::NodeInfo;

    use super::*;
    use crate::registry::Load;

    const NEAR: Location<'static> = Location { region: "r", zone: "a" };

    fn handler(id: &str, region: &str, zone: &str, streams: u32, health: HealthStatus) -> Node {
        let node_info = NodeInfo { region: region.to_owned(), zone: zone.to_owned(), ..NodeInfo::default() };
        let load = Load { health: health.into(), streams, max_streams: 100, ..Load::default() };
        Node { id: id.to_owned(), node_info, load, reserved: 0 }
    }

    fn controller_at(id: &str, meetings: u32, reserved: u32) -> Node {
        let load = Load { health: 1, meetings, max_meetings: 100, max_participants: 10, ..Load::default() };
        Node {
            id: id.to_owned(),
            node_info: NodeInfo { region: "r".to_owned(), ..NodeInfo::default() },
            load,
            reserved,
        }
    }

    /// Every pair of random numbers for this many nodes.
    fn all_chances(nodes: usize, mut visit: impl FnMut(RandomIndex<'_>)) {
        let most = nodes.max(2);
        for seed in 0..most * most * most * most {
            let mut left = seed;
            visit(&mut |n| {
                let number = left % n;
                left /= n;
                number
            });
        }
    }

    fn ids(placement: &HandlerSelection<'_>) -> Vec<String> {
        placement.ranked.iter().map(|node| node.id.clone()).collect()
    }

    #[test]
    fn the_score_matches_the_table_without_its_cap() {
        use HealthStatus::{Degraded, Draining, Healthy, Pending, Unhealthy};
        let table = [
            (handler("h", "r", "a", 0, Healthy), 1.2),
            (handler("h", "r", "b", 0, Healthy), 1.1),
            (handler("h", "s", "a", 0, Healthy), 1.0),
            (handler("h", "s", "x", 100, Healthy), 0.5),
            (handler("h", "s", "x", 50, Healthy), 0.75),
            (handler("h", "r", "a", 0, Degraded), 0.6),
            (handler("h", "s", "x", 0, Pending), 0.5),
            (handler("h", "r", "a", 0, Unhealthy), 0.0),
            (handler("h", "r", "a", 0, Draining), 0.0),
        ];
        for (node, expected) in table {
            let found = score(&node, NEAR);
            assert!((found - expected).abs() < 1e-9, "{found} for {node:?}");
        }
    }

    #[test]
    fn handlers_are_healthy_not_full_and_in_two_zones() {
        use HealthStatus::{Healthy, Unhealthy};
        let nodes = [
            handler("a1", "r", "a", 10, Healthy),
            handler("a2", "r", "a", 20, Healthy),
            handler("b1", "r", "b", 90, Healthy),
            handler("full", "r", "b", 100, Healthy),
            handler("sick", "r", "c", 0, Unhealthy),
            handler("far", "s", "z", 0, Healthy),
        ];
        all_chances(nodes.len(), |chance| {
            let placement = handlers(&nodes, NEAR, &[], chance).unwrap();
            let ids = ids(&placement);
            assert!(!placement.degraded);
            assert!(!ids.contains(&"full".to_owned()) && !ids.contains(&"sick".to_owned()), "{ids:?}");
            assert_ne!(placement.ranked[0].node_info.zone, placement.ranked[1].node_info.zone, "{ids:?}");
            assert!(!ids.contains(&"far".to_owned()), "the region is left only if necessary: {ids:?}");
        });
    }

    #[test]
    fn a_single_zone_is_used_and_flagged() {
        use HealthStatus::Healthy;
        let one_zone = [handler("a1", "r", "a", 0, Healthy), handler("a2", "r", "a", 0, Healthy)];
        all_chances(2, |chance| {
            let placement = handlers(&one_zone, NEAR, &[], chance).unwrap();
            assert!(placement.degraded && placement.ranked.len() == 2);
        });
        let placement = handlers(&one_zone[..1], NEAR, &[], &mut |_| 0).unwrap();
        assert!(placement.degraded && ids(&placement) == ["a1"]);
        assert_eq!(handlers(&one_zone, NEAR, &["a1".to_owned(), "a2".to_owned()], &mut |_| 0), None);
        assert_eq!(handlers(&[], NEAR, &[], &mut |_| 0), None);
    }

    #[test]
    fn another_zone_outweighs_the_same_region() {
        use HealthStatus::Healthy;
        let nodes = [
            handler("a1", "r", "a", 0, Healthy),
            handler("a2", "r", "a", 0, Healthy),
            handler("far", "s", "z", 0, Healthy),
        ];
        all_chances(3, |chance| {
            let placement = handlers(&nodes, NEAR, &[], chance).unwrap();
            assert_eq!((ids(&placement)[1].as_str(), placement.degraded), ("far", false));
        });
    }

    #[test]
    fn recent_assignments_count_as_load() {
        let nodes = [controller_at("a", 10, 0), controller_at("b", 5, 10)];
        all_chances(2, |chance| assert_eq!(controller(&nodes, "r", &[], chance).unwrap().id, "a"));
    }

    #[test]
    fn full_tried_and_draining_controllers_are_skipped_and_busy_ones_come_last() {
        let draining = Load { health: HealthStatus::Draining.into(), ..controller_at("d", 0, 0).load };
        let nodes = [
            controller_at("full", 100, 0),
            controller_at("busy", 90, 0),
            controller_at("tried", 0, 0),
            Node { load: draining, ..controller_at("draining", 0, 0) },
            controller_at("good", 40, 0),
        ];
        let tried = ["tried".to_owned()];
        all_chances(5, |chance| assert_eq!(controller(&nodes, "r", &tried, chance).unwrap().id, "good"));
        all_chances(4, |chance| {
            assert_eq!(controller(&nodes[..4], "r", &tried, chance).unwrap().id, "busy");
        });
        assert_eq!(controller(&nodes[..1], "r", &tried, &mut |_| 0), None);
        let crowded = Load { participants: 10, ..controller_at("c", 0, 0).load };
        let crowded = [Node { load: crowded, ..controller_at("crowded", 0, 0) }];
        assert_eq!(controller(&crowded, "r", &[], &mut |_| 0), None);
    }

    #[test]
    fn equal_controllers_share_the_meetings() {
        let nodes: Vec<Node> = (0..4).map(|n| controller_at(&n.to_string(), 10, 0)).collect();
        let mut chosen = std::collections::BTreeSet::new();
        all_chances(4, |chance| {
            chosen.insert(controller(&nodes, "", &[], chance).unwrap().id.clone());
        });
        assert_eq!(chosen.len(), 4);
    }
}
