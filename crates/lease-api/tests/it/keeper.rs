//! Keepers, gates and slots over the network, unchanged.

use std::time::Duration;

use tenure_keeper::{Gate, Keeper, Slots, Terms};
use tenure_lease::{Clock, Holder, Leases, Ttl};
use tenure_store::{BootClock, Store};

use crate::client::key;
use crate::server::{LIMIT, Server};

async fn keeper(server: &Server, name: &str) -> Keeper {
    Keeper::new(Store::new(server.client().await), Holder::new(name).unwrap())
}

fn terms() -> Terms {
    Terms::new(Ttl::from_secs(3).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_guards_are_renewed_over_one_stream_and_released() {
    let server = Server::start().await;
    let keeper = keeper(&server, "a").await;
    let mut guards = Vec::new();
    for n in 0..200 {
        guards.push(keeper.try_acquire(key(&format!("k/{n}")), terms()).await.unwrap());
    }
    // Longer than the TTL, so that every guard was renewed.
    BootClock.sleep_until(BootClock.now() + Duration::from_secs(4)).await;
    for guard in &guards {
        assert!(guard.permit(Duration::ZERO).is_ok());
        let verified = server.store.inspect(guard.key()).await.unwrap();
        assert_eq!(verified.generation, Some(guard.generation()));
    }
    for guard in guards {
        guard.release().await.unwrap();
    }
    assert_eq!(server.client().await.inspect(&key("k/0")).await.unwrap().phase, tenure_lease::Phase::Free);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guard_that_waited_is_held_after_one_renewal() {
    let server = Server::start().await;
    let (first, second) = (keeper(&server, "a").await, keeper(&server, "b").await);
    let guard = first.try_acquire(key("k"), terms()).await.unwrap();
    let (waited, ()) = tokio::join!(second.acquire(key("k"), terms(), LIMIT), async {
        server.parked("k", 1).await;
        guard.release().await.unwrap();
    });
    assert!(waited.unwrap().permit(Duration::from_millis(1)).is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_and_gates_work_over_the_network() {
    let server = Server::start().await;
    let keeper = keeper(&server, "a").await;
    let slots = Slots::new(&keeper, key("tuner"), 2).unwrap();
    let first = slots.take(terms(), Duration::ZERO).await.unwrap();
    let second = slots.take(terms(), Duration::ZERO).await.unwrap();
    assert_ne!(first.index(), second.index());
    assert!(slots.take(terms(), Duration::ZERO).await.is_err());
    let (third, _) = tokio::join!(slots.take(terms(), LIMIT), async {
        drop(first);
    });
    third.unwrap();
    let gate = Gate::open_with(&keeper, key("gate"), terms(), |lost| panic!("{lost:?}")).await.unwrap();
    gate.close().await.unwrap();
}
