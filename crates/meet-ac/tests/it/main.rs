//! The authority with real vaults and over its routes.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests panic on failure")]

mod authority;
mod http;

use std::sync::Arc;

use std::sync::atomic::{AtomicU64, Ordering};
use tenure_keeper::OsEntropy;
use tenure_lease::{Clock, Sleep, Tick, Wall};
use tenure_meet_ac::{Authority, Clients, Credentials, DirectoryVault, Vault};
use tenure_meet_wire::jwt::ServiceType;

/// A clock that the test advances.
pub(crate) struct Hand(AtomicU64);

impl Hand {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(1_700_000_000)))
    }

    pub(crate) fn pass(&self, seconds: u64) {
        self.0.fetch_add(seconds, Ordering::Relaxed);
    }
}

impl Clock for Hand {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.0.load(Ordering::Relaxed) * 1_000_000_000)
    }

    fn wall(&self) -> Wall {
        Wall::from_micros(self.0.load(Ordering::Relaxed) * 1_000_000)
    }

    fn sleep_until(&self, _at: Tick) -> Sleep {
        Box::pin(std::future::pending())
    }
}

pub(crate) fn credentials() -> Credentials {
    Credentials { client_id: "mc-1".to_owned(), client_secret: "hunter2-mc".to_owned() }
}

pub(crate) fn clients() -> Clients {
    let scopes = ["service.write.gc", "service.write.mh"];
    Clients::default().with(&credentials(), ServiceType::MeetingController, &scopes).unwrap()
}

pub(crate) async fn in_folder(
    dir: &std::path::Path,
    clock: Arc<Hand>,
) -> Result<Authority, tenure_meet_ac::Error> {
    Authority::open(Vault::Folder(DirectoryVault::new(dir)), clients(), clock, Arc::new(OsEntropy)).await
}
