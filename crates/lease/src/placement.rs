//! Preferred owners, computed alike by every node.
//!
//! Both variants are rendezvous hashing: each key ranks all nodes by a hash of the pair, so a node that
//! leaves or joins moves only its own share. Placement is a preference; the lease decides.

use std::collections::{HashMap, HashSet};

/// How keys are placed on nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// FNV-1a of node and key, with a separator and a 64-bit finaliser, and loads kept between the floor and
    /// the ceiling of the mean.
    #[default]
    Balanced,
    /// FNV-1a of the node's name followed by the key, nothing else: what nodes of the original poller
    /// compute. Its spread is poor; use it only beside them.
    Seed,
}

impl Placement {
    /// The preferred node of every key, as indices into `nodes`. Empty when there are no nodes.
    ///
    /// Which name a key gets depends on the two sets alone, not on their order. Equal names are one node, with one
    /// share and the index of the first of them.
    pub fn assign(self, keys: &[&str], nodes: &[&str]) -> Vec<usize> {
        if nodes.is_empty() {
            return Vec::new();
        }
        match self {
            Self::Seed => keys.iter().map(|key| seed_best(key, nodes)).collect(),
            Self::Balanced => balanced(keys, nodes),
        }
    }

    /// The preferred node of one key without regard to load.
    pub fn prefer<'n>(self, key: &str, nodes: &[&'n str]) -> Option<&'n str> {
        let best = match self {
            _ if nodes.is_empty() => return None,
            Self::Seed => seed_best(key, nodes),
            Self::Balanced => ranked(key, nodes)[0],
        };
        Some(nodes[best])
    }
}

/// The original poller's weight of a node for a key: 64-bit FNV-1a of both, joined without a separator.
pub fn seed_weight(node: &str, key: &str) -> u64 {
    fnv1a(fnv1a(OFFSET, node.as_bytes()), key.as_bytes())
}

const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

fn fnv1a(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME))
}

/// The first node with the greatest weight; a weight of zero never wins, as in the original.
fn seed_best(key: &str, nodes: &[&str]) -> usize {
    let mut best = (0, 0);
    for (i, node) in nodes.iter().enumerate() {
        let weight = seed_weight(node, key);
        if weight > best.1 {
            best = (i, weight);
        }
    }
    best.0
}

/// FNV-1a over node, a byte that no name contains, and key, then mixed so that every input bit reaches every
/// output bit: plain FNV-1a leaves the last bytes in the low bits and spreads unevenly.
fn weight(node: &str, key: &str) -> u64 {
    let hash = fnv1a(fnv1a(fnv1a(OFFSET, node.as_bytes()), &[0xff]), key.as_bytes());
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

/// Node indices from most to least preferred by `key`; ties go to the smaller name. Of equal names only the first is
/// there.
fn ranked(key: &str, nodes: &[&str]) -> Vec<usize> {
    let mut order: Vec<_> = nodes.iter().enumerate().map(|(i, node)| (weight(node, key), *node, i)).collect();
    order.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)).then(a.2.cmp(&b.2)));
    order.dedup_by_key(|(_, node, _)| *node);
    order.into_iter().map(|(_, _, i)| i).collect()
}

/// Assigns every key to its first choice. A full node keeps the keys that prefer it most; the others go to the next node
/// of their ranking with capacity.
fn balanced(keys: &[&str], nodes: &[&str]) -> Vec<usize> {
    let names: HashSet<_> = nodes.iter().collect();
    let mut capacity = Capacity::new(keys.len(), names.len());
    let mut preferences: Vec<_> = keys.iter().enumerate().map(|(k, key)| (k, ranked(key, nodes))).collect();
    // Strongest preference first, so that the keys of a full node do not depend on the order of the input.
    preferences
        .sort_by_cached_key(|(k, order)| (std::cmp::Reverse(weight(nodes[order[0]], keys[*k])), keys[*k]));
    let mut placed = vec![usize::MAX; keys.len()];
    let mut rejected = Vec::new();
    for (k, order) in preferences {
        if capacity.take_share(order[0]) {
            placed[k] = order[0];
        } else {
            rejected.push((k, order));
        }
    }
    for (k, order) in rejected {
        if let Some(node) = order.into_iter().find(|node| capacity.take_share(*node)) {
            placed[k] = node;
        }
    }
    placed
}

/// Remaining capacity per node, so that all loads end between the floor and the ceiling of the mean.
struct Capacity {
    load: HashMap<usize, usize>,
    floor: usize,
    /// Nodes that may go one above the floor.
    extra: usize,
}

impl Capacity {
    fn new(keys: usize, nodes: usize) -> Self {
        Self { load: HashMap::new(), floor: keys / nodes, extra: keys % nodes }
    }

    fn take_share(&mut self, node: usize) -> bool {
        let load = self.load.entry(node).or_insert(0);
        if *load < self.floor {
            *load += 1;
            return true;
        }
        let above = *load == self.floor && self.extra > 0;
        if above {
            *load += 1;
            self.extra -= 1;
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(prefix: &str, n: usize) -> Vec<String> {
        (0..n).map(|i| format!("{prefix}{i}")).collect()
    }

    fn refs(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }

    #[test]
    fn the_seed_variant_is_fnv1a_of_the_joined_names_bit_for_bit() {
        // Published FNV-1a test vectors: "" , "a", "foobar".
        assert_eq!(seed_weight("", ""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(seed_weight("a", ""), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(seed_weight("foo", "bar"), 0x8594_4171_f739_67e8);
        assert_eq!(seed_weight("foobar", ""), seed_weight("", "foobar"));
    }

    #[test]
    fn nine_keys_on_three_nodes_are_three_each() {
        let (keys, nodes) = (names("endpoint-", 9), names("node-", 3));
        let placed = Placement::Balanced.assign(&refs(&keys), &refs(&nodes));
        for node in 0..3 {
            assert_eq!(placed.iter().filter(|n| **n == node).count(), 3);
        }
    }

    #[test]
    fn loads_stay_between_floor_and_ceiling() {
        for (k, n) in [(1, 3), (10, 3), (100, 7), (1_000, 10), (997, 50)] {
            let (keys, nodes) = (names("k", k), names("n", n));
            let placed = Placement::Balanced.assign(&refs(&keys), &refs(&nodes));
            let mut load = vec![0; n];
            placed.iter().for_each(|node| load[*node] += 1);
            assert!(load.iter().all(|l| (k / n..=k.div_ceil(n)).contains(l)), "{k} on {n}: {load:?}");
        }
    }

    #[test]
    fn the_order_of_keys_and_nodes_does_not_matter() {
        let (keys, nodes) = (names("k", 100), names("n", 7));
        let (mut keys, mut nodes) = (refs(&keys), refs(&nodes));
        let owner = |keys: &[&str], nodes: &[&str]| -> Vec<(String, String)> {
            let placed = Placement::Balanced.assign(keys, nodes);
            let mut pairs: Vec<_> =
                keys.iter().zip(placed).map(|(k, n)| (k.to_string(), nodes[n].to_string())).collect();
            pairs.sort();
            pairs
        };
        let before = owner(&keys, &nodes);
        keys.reverse();
        nodes.rotate_left(3);
        assert_eq!(owner(&keys, &nodes), before);
    }

    #[test]
    fn equal_names_are_one_node_with_one_share() {
        let keys = names("k", 100);
        let keys = refs(&keys);
        for placement in [Placement::Balanced, Placement::Seed] {
            let alone = placement.assign(&keys, &["a", "b", "c"]);
            // Each index represents the first node of its name.
            assert_eq!(placement.assign(&keys, &["a", "b", "c", "a", "c", "a"]), alone, "{placement:?}");
            let moved: Vec<_> = alone.iter().map(|node| [0, 2, 4][*node]).collect();
            assert_eq!(placement.assign(&keys, &["a", "a", "b", "b", "c", "b"]), moved, "{placement:?}");
            for key in &keys {
                assert_eq!(placement.prefer(key, &["a", "a", "b"]), placement.prefer(key, &["b", "a"]));
            }
        }
    }

    #[test]
    fn a_node_that_joins_moves_little_more_than_its_share() {
        let (keys, nodes) = (names("endpoint-", 10_000), names("node-", 11));
        let (keys, nodes) = (refs(&keys), refs(&nodes));
        let before = Placement::Balanced.assign(&keys, &nodes[..10]);
        let after = Placement::Balanced.assign(&keys, &nodes);
        let moved = before.iter().zip(&after).filter(|(b, a)| b != a).count();
        assert!(moved < 10_000 / 11 * 13 / 10, "{moved} keys moved");
    }

    #[test]
    fn without_nodes_nothing_is_placed() {
        assert!(Placement::Balanced.assign(&["k"], &[]).is_empty());
        assert_eq!(Placement::Seed.prefer("k", &[]), None);
        assert_eq!(Placement::Balanced.prefer("k", &["n"]), Some("n"));
    }
}
