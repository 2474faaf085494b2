//! A real server and the handles of one test on it.

use std::time::Duration;

use lease::{Acquired, Busy, Claim, Grant, Holder, Key, Leases, Release, Renewal, Token, Ttl};
use lease_store::{OsEntropy, Redis};
use testkit::RedisServer;

/// Long enough for anything that happens at all.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

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
