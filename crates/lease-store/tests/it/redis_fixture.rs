//! Helpers for tests on a real Redis server.

use std::time::Duration;

use tenure_lease::{
    Acquired, Busy, Claim, Clock, Grant, Holder, Key, Leases, Release, Renewal, Sleep, Tick, Token, Ttl, Wall,
};
use tenure_store::{BootClock, OsEntropy, Redis};
use tenure_testkit::RedisServer;

/// Long enough for anything that happens at all.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A clock on which every wait of more than four seconds takes this time instead, or for ever. Without an end, waiting
/// claims never check by themselves.
pub(crate) struct BentClock(pub(crate) Option<Duration>);

impl Clock for BentClock {
    fn now(&self) -> Tick {
        BootClock.now()
    }

    fn wall(&self) -> Wall {
        BootClock.wall()
    }

    fn sleep_until(&self, moment: Tick) -> Sleep {
        let now = BootClock.now();
        match (moment.since(now) > Duration::from_secs(4), self.0) {
            (false, _) => BootClock.sleep_until(moment),
            (true, Some(soon)) => BootClock.sleep_until(now + soon),
            (true, None) => Box::pin(std::future::pending()),
        }
    }
}

pub(crate) fn key(name: &str) -> Key {
    Key::new(name).unwrap()
}

/// An engine without quarantine.
pub(crate) async fn open(url: &str) -> Redis {
    Redis::open(&format!("{url}?quarantine_ms=0")).await.unwrap()
}

pub(crate) fn claim(name: &str, holder: &str) -> Claim {
    Claim::new(
        key(name),
        Holder::new(holder).unwrap(),
        Token::random(&OsEntropy),
        Ttl::from_secs(20).unwrap(),
    )
}

pub(crate) async fn granted(store: &Redis, claim: &Claim) -> Grant {
    match store.acquire(claim.clone()).await.unwrap() {
        Acquired::Granted(grant) => grant,
        Acquired::Busy(busy) => panic!("{busy:?}"),
    }
}

pub(crate) async fn busy(store: &Redis, claim: &Claim) -> Busy {
    match store.acquire(claim.clone()).await.unwrap() {
        Acquired::Busy(busy) => busy,
        Acquired::Granted(grant) => panic!("{grant:?}"),
    }
}

pub(crate) fn renewal(claim: &Claim, grant: &Grant) -> Renewal {
    let (key, token) = (claim.key.clone(), claim.token.clone());
    Renewal { key, token, generation: grant.lease.generation, ttl: None }
}

pub(crate) fn release(claim: &Claim) -> Release {
    Release::new(claim.key.clone(), claim.token.clone())
}

/// The reply to a command, as text.
pub(crate) fn text(server: &RedisServer, command: &[&str]) -> Option<String> {
    server.command(command).unwrap().text().map(str::to_owned)
}

/// The reply to a command, as a number.
pub(crate) fn int(server: &RedisServer, command: &[&str]) -> i64 {
    server.command(command).unwrap().int().unwrap()
}
