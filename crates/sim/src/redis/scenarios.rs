//! Short stories about a quarantine, told step by step: random requests seldom meet all of their conditions.

use std::time::Duration;

use tenure_lease::{Acquired, Claim, Error, Holder, Key, Lease, Phase, Release, Result, Tick, Token, Ttl};
use tenure_store::redis_protocol::acquire::Queue;
use tenure_store::redis_protocol::release::ReleaseRequest;

use super::Break;
use super::client::{Client, ENGINE, hex};
use super::cluster::Cluster;
use super::simulation::MS;
use crate::disk::clock::Time;
use crate::disk::seeded_rng::SeededEntropy;

/// As long as the TTL of every claim here.
const QUARANTINE: Duration = Duration::from_secs(10);

/// Whether a story ends well.
type Scenario = fn(Option<Break>) -> Result<bool>;

struct Story {
    time: Time,
    cluster: Cluster,
    clients: [Client; 3],
    entropy: SeededEntropy,
}

/// Tells every story. The error says which sentence is wrong.
pub(super) fn run(how: Option<Break>) -> Result<(), String> {
    let stories: [(&str, Scenario); 2] = [
        ("a repeated release handed on a key whose holder the server had forgotten", repeated_release),
        ("a client with short leases ended the quarantine of the others", brief_client),
    ];
    for (defect, story) in stories {
        match story(how) {
            Ok(true) => {}
            Ok(false) => return Err(defect.to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

impl Story {
    /// Three clients of a single server whose first quarantine is over.
    fn begin(how: Option<Break>) -> Result<Self> {
        let time = Time::default();
        time.advance(1);
        let cluster = Cluster::new(&time, 0, (QUARANTINE, false), how);
        let clients = [0, 1, 2].map(|number| Client::new(0, number));
        let mut story = Self { time, cluster, clients, entropy: SeededEntropy::new(1) };
        for client in 0..3 {
            let now = story.now();
            story.clients[client].open(&mut story.cluster, now)?;
        }
        story.pass(QUARANTINE);
        Ok(story)
    }

    fn now(&self) -> Tick {
        Tick::from_nanos(self.time.now())
    }

    fn pass(&mut self, span: Duration) {
        self.time.advance(span.as_nanos() as u64 + MS);
    }

    fn claim(&self, holder: &str, ttl: Duration) -> Result<Claim> {
        let ttl = Ttl::from_millis(ttl.as_millis() as u64)?;
        Ok(Claim::new(Key::new("k/0")?, Holder::new(holder)?, Token::random(&self.entropy), ttl).remote())
    }

    fn acquire(&mut self, client: usize, claim: &Claim, queue: Queue) -> Result<Option<Lease>> {
        let now = self.now();
        match self.clients[client].acquire(&mut self.cluster, now, claim, queue)? {
            Acquired::Granted(grant) => Ok(Some(grant.lease)),
            Acquired::Busy(_) => Ok(None),
        }
    }

    fn hold(&mut self, client: usize, claim: &Claim) -> Result<Lease> {
        let lease = self.acquire(client, claim, Queue::Skip)?;
        lease.ok_or_else(|| Error::unavailable(ENGINE, "a free key was not granted"))
    }

    fn release(&mut self, client: usize, claim: &Claim) -> Result<()> {
        let (now, release) = (self.now(), Release::new(claim.key.clone(), claim.token.clone()));
        self.clients[client].release(&mut self.cluster, now, &ReleaseRequest::from(release), false).map(drop)
    }

    fn is_free(&mut self, key: &Key) -> Result<bool> {
        let now = self.now();
        Ok(self.clients[0].inspect(&mut self.cluster, now, key)?.phase == Phase::Free)
    }
}

/// The first holder releases and the second one is granted the key. The server comes back without either, a third claim
/// waits, and the release is sent again. The second holder still acts.
fn repeated_release(how: Option<Break>) -> Result<bool> {
    let mut story = Story::begin(how)?;
    let [first, second, third] = ["h0", "h1", "h2"].map(|holder| story.claim(holder, QUARANTINE));
    let (first, second, third) = (first?, second?, third?);
    story.hold(0, &first)?;
    story.release(0, &first)?;
    story.hold(1, &second)?;
    // Without the last two calls.
    story.cluster.restart(0, Some(2));
    let queue = Queue::Join { waiter: hex(1), instance: story.clients[2].instance, wait_ms: 60_000 };
    if story.acquire(2, &third, queue)?.is_some() {
        return Ok(false);
    }
    story.release(0, &first)?;
    story.is_free(&first.key)
}

/// The server comes back empty, and the client that calls first grants short leases only.
fn brief_client(how: Option<Break>) -> Result<bool> {
    let mut story = Story::begin(how)?;
    let (long, brief) = (story.claim("h0", QUARANTINE)?, Duration::from_secs(1));
    story.hold(0, &long)?;
    story.cluster.restart(0, None);
    story.clients[1].quarantine = Some(brief);
    for client in [1, 0] {
        let now = story.now();
        story.clients[client].sweep(&mut story.cluster, now)?;
    }
    story.pass(brief);
    let claim = story.claim("h1", brief)?;
    Ok(story.acquire(1, &claim, Queue::Skip)?.is_none())
}
