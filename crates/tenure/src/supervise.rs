//! Runs services beside the server and ends them together.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use tenure_lease::Clock;
use tenure_service::Shutdown;
use tokio::sync::oneshot;

use crate::cli::{Failure, Result};
use crate::services::Service;

/// How long the server and the other services may take to end after a service failed.
const FAILURE_GRACE: Duration = Duration::from_secs(2);

/// Runs `server` and the services until the shutdown, which also begins when the server ends or a service fails.
///
/// From then on each service drains and stops beside the server, which finishes its requests meanwhile. Services end
/// concurrently, the last one started first: a slow one delays none of the others. After a failure they get
/// [`FAILURE_GRACE`], and what is left is dropped.
pub(crate) async fn run<T>(
    services: Vec<Box<dyn Service>>,
    server: impl Future<Output = T>,
    shutdown: &Shutdown,
    clock: &dyn Clock,
) -> Result<T> {
    let (failed, mut failure) = oneshot::channel();
    let failed = parking_lot::Mutex::new(Some(failed));
    let report = |error: Failure| {
        shutdown.trigger();
        if let Some(failed) = failed.lock().take() {
            // The receiver outlives the services.
            let _ = failed.send(error);
        }
    };
    let server = async {
        let served = server.await;
        shutdown.trigger();
        served
    };
    let services = services.into_iter().rev().map(|mut service| async {
        match service.run(shutdown).await {
            Err(error) => report(error),
            Ok(()) => {
                service.drain().await;
                service.stop().await;
            }
        }
    });
    let mut all = pin!(async { tokio::join!(join_all(services), server).1 });
    let error = tokio::select! {
        biased;
        served = &mut all => return failure.try_recv().map_or(Ok(served), Err),
        Ok(error) = &mut failure => error,
    };
    tokio::select! {
        _ = all => {}
        () = clock.sleep_until(clock.now() + FAILURE_GRACE) => {}
    }
    Err(error)
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use async_trait::async_trait;
    use axum::Router;
    use parking_lot::Mutex;
    use tenure_store::TokioClock;

    use super::*;

    type Journal = Arc<Mutex<Vec<String>>>;

    /// Writes what happens to it into a journal.
    struct Recorded {
        name: &'static str,
        journal: Journal,
        fails: bool,
        drains_for: Duration,
        clock: Arc<TokioClock>,
    }

    impl Recorded {
        fn note(&self, event: &str) {
            self.journal.lock().push(format!("{} {event}", self.name));
        }
    }

    #[async_trait]
    impl Service for Recorded {
        fn routes(&self) -> Router {
            Router::new()
        }

        async fn run(&self, shutdown: &Shutdown) -> Result<()> {
            if self.fails {
                return Err(Failure::internal("broken"));
            }
            shutdown.wait().await;
            Ok(())
        }

        async fn drain(&mut self) {
            self.note("drains");
            self.clock.sleep_until(self.clock.now() + self.drains_for).await;
        }

        async fn stop(self: Box<Self>) {
            self.note("stops");
        }
    }

    struct Fixture {
        journal: Journal,
        clock: Arc<TokioClock>,
        shutdown: Shutdown,
    }

    impl Fixture {
        fn new() -> Self {
            Self { journal: Journal::default(), clock: Arc::default(), shutdown: Shutdown::new() }
        }

        fn service(&self, name: &'static str, fails: bool, drains_for: Duration) -> Box<dyn Service> {
            let (journal, clock) = (self.journal.clone(), self.clock.clone());
            Box::new(Recorded { name, journal, fails, drains_for, clock })
        }

        fn events(&self) -> Vec<String> {
            self.journal.lock().clone()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn services_drain_and_then_stop_in_reverse_order_of_start() {
        let fixture = Fixture::new();
        let moment = Duration::from_millis(1);
        let services =
            ["first", "second", "third"].map(|name| fixture.service(name, false, moment)).into_iter();
        fixture.shutdown.trigger();
        run(services.collect(), async {}, &fixture.shutdown, &*fixture.clock).await.unwrap();
        assert_eq!(
            fixture.events(),
            ["third drains", "second drains", "first drains", "third stops", "second stops", "first stops"]
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_service_delays_no_other_and_is_waited_for() {
        let fixture = Fixture::new();
        let services = vec![
            fixture.service("fast", false, Duration::ZERO),
            fixture.service("slow", false, Duration::from_secs(60)),
        ];
        fixture.shutdown.trigger();
        run(services, async {}, &fixture.shutdown, &*fixture.clock).await.unwrap();
        assert_eq!(fixture.events(), ["slow drains", "fast drains", "fast stops", "slow stops"]);
    }

    #[tokio::test(start_paused = true)]
    async fn services_stop_when_the_server_ends() {
        let fixture = Fixture::new();
        let services = vec![fixture.service("only", false, Duration::ZERO)];
        let served = run(services, async { 7 }, &fixture.shutdown, &*fixture.clock).await.unwrap();
        assert!(served == 7 && fixture.shutdown.is_triggered());
        assert_eq!(fixture.events(), ["only drains", "only stops"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_service_ends_the_process_and_the_rest_gets_a_moment() {
        let fixture = Fixture::new();
        let services = vec![
            fixture.service("broken", true, Duration::ZERO),
            fixture.service("fast", false, Duration::ZERO),
            fixture.service("slow", false, Duration::from_secs(60)),
        ];
        let begun = fixture.clock.now();
        let outcome = run(services, pending::<()>(), &fixture.shutdown, &*fixture.clock).await;
        assert!(outcome.is_err() && fixture.shutdown.is_triggered());
        assert!(fixture.clock.now().since(begun) <= FAILURE_GRACE + Duration::from_millis(10));
        assert_eq!(fixture.events(), ["slow drains", "fast drains", "fast stops"]);
    }
}
