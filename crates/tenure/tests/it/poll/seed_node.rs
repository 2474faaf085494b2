//! A node of the original design next to a Tenure node: `SET NX PX`, its two scripts, its hash, a heartbeat key, and
//! no generations.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tenure_lease::{Clock, Tick, seed_weight};
use tenure_store::BootClock;
use tenure_testkit::{Reply, RespClient, wait};

use super::cluster::{Cluster, LONG, let_time_pass};
use crate::harness::LIMIT;

const RENEW: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("PEXPIRE", KEYS[1], ARGV[2])
else
  return 0
end
"#;
const RELEASE: &str = r#"
if redis.call("GET", KEYS[1]) == ARGV[1] then
  return redis.call("DEL", KEYS[1])
else
  return 0
end
"#;

/// A period in which the node owned a target, according to itself.
#[derive(Clone, Debug)]
struct OwnershipWindow {
    id: String,
    from: Tick,
    until: Tick,
}

struct SeedNode {
    id: String,
    client: RespClient,
    endpoint: std::net::SocketAddr,
    targets: Vec<String>,
    owned: BTreeMap<String, Tick>,
    windows: Vec<OwnershipWindow>,
    polls: usize,
}

impl SeedNode {
    fn text(&mut self, args: &[&str]) -> Option<String> {
        self.client.command(args).unwrap().text().map(str::to_owned)
    }

    fn nodes(&mut self) -> Vec<String> {
        let Reply::Array(Some(keys)) = self.client.command(&["KEYS", "poll:node:*"]).unwrap() else {
            panic!()
        };
        keys.iter().filter_map(Reply::text).map(|key| key["poll:node:".len()..].to_owned()).collect()
    }

    fn preferred(id: &str, nodes: &[String]) -> Option<String> {
        let mut best: (Option<&String>, u64) = (None, 0);
        for node in nodes {
            let weight = seed_weight(node, id);
            if weight > best.1 {
                best = (Some(node), weight);
            }
        }
        best.0.cloned()
    }

    fn try_acquire(&mut self, id: &str) {
        let key = format!("poll:lease:{id}");
        let (own, ttl) = (self.id.clone(), LONG.ttl.to_string());
        if self.text(&["SET", &key, &own, "NX", "PX", &ttl]).as_deref() == Some("OK") {
            self.owned.insert(id.to_owned(), BootClock.now());
        }
    }

    fn close(&mut self, id: &str) {
        if let Some(from) = self.owned.remove(id) {
            self.windows.push(OwnershipWindow { id: id.to_owned(), from, until: BootClock.now() });
        }
    }

    fn renew(&mut self, id: &str) {
        let (key, own, ttl) = (format!("poll:lease:{id}"), self.id.clone(), LONG.ttl.to_string());
        let renewed = self.client.command(&["EVAL", RENEW, "1", &key, &own, &ttl]).unwrap();
        assert_eq!(renewed.int(), Some(1), "{id} was taken from the seed node");
    }

    fn release(&mut self, id: &str) {
        self.close(id);
        let (key, own) = (format!("poll:lease:{id}"), self.id.clone());
        let released = self.client.command(&["EVAL", RELEASE, "1", &key, &own]).unwrap();
        assert_eq!(released.int(), Some(1), "{id} was taken from the seed node");
    }

    fn poll(&mut self, id: &str) {
        let mut stream = TcpStream::connect(self.endpoint).unwrap();
        write!(stream, "GET /t/{id} HTTP/1.0\r\nHost: x\r\nUser-Agent: {}\r\n\r\n", self.id).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
        self.polls += 1;
    }

    fn run(mut self, stop: &AtomicBool) -> Self {
        let (heartbeat, ttl) = (format!("poll:node:{}", self.id), LONG.ttl.to_string());
        while !stop.load(Ordering::Relaxed) {
            self.text(&["SET", &heartbeat, "1", "PX", &ttl]);
            let nodes = self.nodes();
            for id in self.targets.clone() {
                let preferred = Self::preferred(&id, &nodes).as_ref() == Some(&self.id);
                match (self.owned.contains_key(&id), preferred) {
                    (false, true) => self.try_acquire(&id),
                    (true, false) => self.release(&id),
                    _ => {}
                }
                if self.owned.contains_key(&id) {
                    self.renew(&id);
                    self.poll(&id);
                }
            }
            let_time_pass(Duration::from_millis(50));
        }
        for id in self.owned.keys().cloned().collect::<Vec<_>>() {
            self.release(&id);
        }
        self.text(&["DEL", &heartbeat]);
        self
    }
}

#[test]
fn a_seed_node_and_a_tenure_node_share_targets_without_polling_any_twice() {
    let mut cluster = Cluster::new(LONG);
    cluster.placement = "seed";
    // Ids as in the original: its hash puts all short ids on one node.
    let ids: Vec<String> = (0..24_u128)
        .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835))
        .map(|n| {
            format!(
                "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
                n >> 96,
                n >> 80 & 0xffff,
                n >> 64 & 0xfff,
                n >> 48 & 0xfff,
                n & 0xffff_ffff_ffff
            )
        })
        .collect();
    cluster.put_targets(&ids);
    let stop = Arc::new(AtomicBool::new(false));
    // Find a name with which both nodes get a share.
    let ours = cluster.start_node();
    cluster.wait_for_loads("the Tenure node owns every target", &[&ours], &[24]);
    let name = (0..).map(|i| format!("seed-host-17000000000000{i:05}-5eed{i:04x}")).find(|name| {
        let nodes = [ours.instance.clone(), name.clone()];
        let theirs = ids.iter().filter(|id| SeedNode::preferred(id, &nodes).as_ref() == Some(name)).count();
        (6..=18).contains(&theirs)
    });
    let seed = SeedNode {
        id: name.unwrap(),
        client: cluster.redis.client().unwrap(),
        endpoint: cluster.endpoint.addr,
        targets: ids.clone(),
        owned: BTreeMap::new(),
        windows: Vec::new(),
        polls: 0,
    };
    let (seed_id, stopping) = (seed.id.clone(), stop.clone());
    let running: JoinHandle<SeedNode> = std::thread::spawn(move || seed.run(&stopping));
    let nodes = [ours.instance.clone(), seed_id.clone()];
    let theirs: Vec<String> =
        ids.iter().filter(|id| SeedNode::preferred(id, &nodes).as_ref() == Some(&seed_id)).cloned().collect();
    wait::until("targets are placed by the seed's hash", LIMIT, || {
        let owners = cluster.owners();
        owners.len() == ids.len()
            && owners.iter().all(|(id, owner)| theirs.contains(id) == (*owner == seed_id))
    })
    .unwrap_or_else(|error| panic!("{error}: {:?}", cluster.owners()));
    cluster.wait_for_polls(&ids, 3);
    stop.store(true, Ordering::Relaxed);
    let seed = running.join().unwrap();
    cluster.wait_for_loads("the Tenure node owns every target again", &[&ours], &[24]);
    cluster.wait_for_polls(&ids, 2);
    cluster.endpoint.assert_one_owner_at_a_time();
    assert!(seed.polls >= 3 * theirs.len() && seed.windows.len() >= theirs.len());
    for hit in cluster.endpoint.hits().iter().filter(|hit| hit.instance != seed_id) {
        let during = seed.windows.iter().find(|w| w.id == hit.id && (w.from..w.until).contains(&hit.start));
        assert!(during.is_none(), "{hit:?} while the seed node owned it: {during:?}");
    }
}
