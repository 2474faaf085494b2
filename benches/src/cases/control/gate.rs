//! The latency that the gate layer adds to an admitted request.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Body;
use axum::routing::put;
use http::Request;
use tenure_control::{Control, Options, RouteClasses};
use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::Holder;
use tenure_service::{Caller, Scopes};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tower::ServiceExt;

use super::Bench;
use super::clients::acquire_lease;
use crate::clock::{Moment, cpu};
use crate::numbers::median;
use crate::report::{self, Goal};

const REQUESTS: u32 = 20_000;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Goal>> {
    let (with, without, cpu_with, cpu_without) = bench.runtime.block_on(measure(bench.rounds))?;
    let added = (with - without) * 1e6;
    let cpu_added = (cpu_with - cpu_without) * 1e6;
    report::line(&format!(
        "A request through a router, {REQUESTS} times: {:.2} µs behind the gate, {:.2} µs without; the gate adds {added:.2} µs ({cpu_added:.2} µs of CPU) \
         with a token that it hashes and compares.\n",
        with * 1e6,
        without * 1e6
    ));
    Ok(vec![Goal::at_most("gate layer, µs per request", 2.0, added)])
}

async fn measure(rounds: usize) -> Result<(f64, f64, f64, f64)> {
    let store: Arc<dyn tenure_lease::Store> = tenure_store::Store::open("memory:").await?.into();
    let options = Options { ttl_ms: 600_000, ..Options::default() };
    let control = Control::start(options, Keeper::new(store, Holder::unique("bench", &OsEntropy)?));
    control.serving().await;
    // The lease is held and the requests carry its token: the longest path through the gate.
    let me = Caller::bearer("bench", Scopes::all_admin());
    let app = control.routes(Arc::new(|_| false)).layer(axum::Extension(me));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let mut tasks = JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await });
    let (_owner, token) = acquire_lease(address).await?;
    let plain = Router::new().route("/lamp/{id}", put(async || "set"));
    let gated = plain.clone().layer(control.gate(RouteClasses::by_method()));
    let mut times = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds.max(3) {
        for (i, router) in [&gated, &plain].into_iter().enumerate() {
            let (wall, spent) = requests(router, &token).await?;
            times[i].push(wall.as_secs_f64() / f64::from(REQUESTS));
            times[i + 2].push(spent.as_secs_f64() / f64::from(REQUESTS));
        }
    }
    tasks.abort_all();
    control.close().await;
    let [with, without, cpu_with, cpu_without] = times.map(median);
    Ok((with, without, cpu_with, cpu_without))
}

async fn requests(router: &Router, token: &str) -> Result<(Duration, Duration)> {
    let (begun, used) = (Moment::now(), cpu());
    for _ in 0..REQUESTS {
        let request = Request::put("/lamp/7").header("x-control-lease", token).body(Body::empty())?;
        let answer = router.clone().oneshot(request).await.context("a router cannot fail")?;
        anyhow::ensure!(answer.status() == 200, "{}", answer.status());
    }
    Ok((begun.passed(), cpu() - used))
}
