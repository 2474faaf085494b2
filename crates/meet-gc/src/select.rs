//! Which nodes get a meeting. Nothing here waits, reads a clock or draws a number by itself.
//!
//! Of two nodes that chance names the less loaded one is taken: the best of all would get every meeting until it reports again.

use meet_wire::internal::HealthStatus;

use crate::limits;
use crate::registry::Node;

/// Gives a number below another one.
pub(crate) type Chance<'a> = &'a mut dyn FnMut(usize) -> usize;

/// Where a meeting is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Near<'a> {
    pub(crate) region: &'a str,
    pub(crate) zone: &'a str,
}

/// The handlers of a meeting: the first is its primary, the second its backup.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Placement<'a> {
    pub(crate) ranked: Vec<&'a Node>,
    /// Both are in one zone, or there is only one.
    pub(crate) degraded: bool,
}

/// The controller that is asked to take a meeting. Those that were tried are not asked again.
pub(crate) fn controller<'a>(
    nodes: &'a [Node],
    region: &str,
    tried: &[String],
    chance: Chance<'_>,
) -> Option<&'a Node> {
    let takes = |node: &&Node| {
        let well = !matches!(node.load.health(), HealthStatus::Unhealthy | HealthStatus::Draining);
        well && !tried.contains(&node.id) && node.fill(0) < 1.0
    };
    let usable: Vec<&Node> = nodes.iter().filter(takes).collect();
    let usable = preferring(usable, |node| region.is_empty() || node.card.region == region);
    let usable = preferring(usable, |node| node.fill(node.reserved) < limits::BUSY);
    two_choices(&usable, |node| -node.fill(node.reserved), chance)
}

/// The handlers of a meeting near its controller.
pub(crate) fn handlers<'a>(
    nodes: &'a [Node],
    near: Near<'_>,
    failed: &[String],
    chance: Chance<'_>,
) -> Option<Placement<'a>> {
    let takes = |node: &&Node| !failed.contains(&node.id) && node.flow(0) < 1.0 && score(node, near) > 0.0;
    let usable: Vec<&Node> = nodes.iter().filter(takes).collect();
    let here = preferring(usable.clone(), |node| node.card.region == near.region);
    let primary = two_choices(&here, |node| score(node, near), chance)?;
    let others = usable.into_iter().filter(|node| node.id != primary.id).collect();
    let elsewhere =
        |node: &Node| (&node.card.region, &node.card.zone) != (&primary.card.region, &primary.card.zone);
    let others = preferring(others, elsewhere);
    let others = preferring(others, |node| node.card.region == near.region);
    let backup = two_choices(&others, |node| score(node, near), chance);
    let degraded = !backup.is_some_and(elsewhere);
    Some(Placement { ranked: [Some(primary), backup].into_iter().flatten().collect(), degraded })
}

/// How good a handler is for a meeting: its health, what is free of it, and how near it is.
pub(crate) fn score(node: &Node, near: Near<'_>) -> f64 {
    let health = match node.load.health() {
        HealthStatus::Healthy => 1.0,
        // One that has not reported yet is there, and nobody knows more.
        HealthStatus::Degraded | HealthStatus::Pending => 0.5,
        HealthStatus::Unhealthy | HealthStatus::Draining => 0.0,
    };
    let place = match () {
        () if node.card.region == near.region && node.card.zone == near.zone => 1.2,
        () if node.card.region == near.region => 1.1,
        () => 1.0,
    };
    health * (1.0 - node.flow(node.reserved).min(1.0) * 0.5) * place
}

/// Those for which it holds, or all if it holds for none.
fn preferring(nodes: Vec<&Node>, holds: impl Fn(&Node) -> bool) -> Vec<&Node> {
    let (fit, rest): (Vec<&Node>, Vec<&Node>) = nodes.into_iter().partition(|node| holds(node));
    if fit.is_empty() { rest } else { fit }
}

/// The better one of two that chance names.
fn two_choices<'a>(nodes: &[&'a Node], worth: impl Fn(&Node) -> f64, chance: Chance<'_>) -> Option<&'a Node> {
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
    use meet_rpc::Card;

    use super::*;
    use crate::registry::Load;

    const NEAR: Near<'static> = Near { region: "r", zone: "a" };

    fn handler(id: &str, region: &str, zone: &str, streams: u32, health: HealthStatus) -> Node {
        let card = Card { region: region.to_owned(), zone: zone.to_owned(), ..Card::default() };
        let load = Load { health: health.into(), streams, max_streams: 100, ..Load::default() };
        Node { id: id.to_owned(), card, load, reserved: 0 }
    }

    fn controller_at(id: &str, meetings: u32, reserved: u32) -> Node {
        let load = Load { health: 1, meetings, max_meetings: 100, max_participants: 10, ..Load::default() };
        Node { id: id.to_owned(), card: Card { region: "r".to_owned(), ..Card::default() }, load, reserved }
    }

    /// Every pair of numbers that chance could give for so many nodes.
    fn all_chances(nodes: usize, mut look: impl FnMut(Chance<'_>)) {
        let most = nodes.max(2);
        for seed in 0..most * most * most * most {
            let mut left = seed;
            look(&mut |n| {
                let number = left % n;
                left /= n;
                number
            });
        }
    }

    fn ids(placement: &Placement<'_>) -> Vec<String> {
        placement.ranked.iter().map(|node| node.id.clone()).collect()
    }

    #[test]
    fn the_score_is_the_one_of_the_table_without_its_cap() {
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
    fn full_and_sick_handlers_are_never_chosen_and_two_of_a_kind_are_in_two_zones() {
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
            assert_ne!(placement.ranked[0].card.zone, placement.ranked[1].card.zone, "{ids:?}");
            assert!(!ids.contains(&"far".to_owned()), "a region is left only where it must be: {ids:?}");
        });
    }

    #[test]
    fn one_zone_alone_is_used_and_said() {
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
    fn another_zone_is_worth_more_than_the_same_region() {
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
    fn a_controller_that_just_got_meetings_counts_as_loaded() {
        let nodes = [controller_at("a", 10, 0), controller_at("b", 5, 10)];
        all_chances(2, |chance| assert_eq!(controller(&nodes, "r", &[], chance).unwrap().id, "a"));
    }

    #[test]
    fn full_tried_draining_and_busy_controllers_come_last_or_not_at_all() {
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
    fn chance_spreads_equal_controllers() {
        let nodes: Vec<Node> = (0..4).map(|n| controller_at(&n.to_string(), 10, 0)).collect();
        let mut chosen = std::collections::BTreeSet::new();
        all_chances(4, |chance| {
            chosen.insert(controller(&nodes, "", &[], chance).unwrap().id.clone());
        });
        assert_eq!(chosen.len(), 4);
    }
}
