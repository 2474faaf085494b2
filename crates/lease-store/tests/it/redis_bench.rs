//! A real server and the handles of one test on it.

use std::time::Duration;

use lease::{
    Acquired, Busy, Claim, Clock, Grant, Holder, Key, Leases, Release, Renewal, Sleep, Tick, Token, Ttl, Wall,
};
use lease_store::{BootClock, OsEntropy, Redis};
use testkit::RedisServer;

/// Long enough for anything that happens at all.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// A clock by which what is due in more than four seconds is due this soon, or never: then nobody looks for himself.
pub(crate) struct Bent(pub(crate) Option<Duration>);

impl Clock for Bent {
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

/// An engine on a server known to be new.
pub(crate) async fn open(url: &str) -> Redis {
    Redis::open(&format!("{url}?quarantine_ms=0")).await.unwrap()
}

pub(crate) fn claim(name: &str, who: &str) -> Claim {
    Claim::new(key(name), Holder::new(who).unwrap(), Token::random(&OsEntropy), Ttl::from_secs(20).unwrap())
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

/// What a plain command answers, as text.
pub(crate) fn text(server: &RedisServer, command: &[&str]) -> Option<String> {
    server.command(command).unwrap().text().map(str::to_owned)
}

/// What a plain command answers, as a number.
pub(crate) fn int(server: &RedisServer, command: &[&str]) -> i64 {
    server.command(command).unwrap().int().unwrap()
}
