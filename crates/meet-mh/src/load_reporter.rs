//! Reports the load of the handler to the controllers of its meetings.

use std::collections::{BTreeSet, HashMap, HashSet};

use tenure_meet_wire::internal::media_coordination_service_client::MediaCoordinationServiceClient;
use tenure_meet_wire::internal::{HealthStatus, MhLoadNotification};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::{MediaHandler, limits, metric};

/// What a controller receives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Notice {
    percent: u32,
    health: HealthStatus,
}

/// Whether a controller must be notified: it knows nothing, or the load changed by 10 points, crossed 80 or 95 percent, or
/// the health changed.
fn is_news(before: Option<Notice>, now: Notice) -> bool {
    let Some(before) = before else { return true };
    let crossed = |mark: u32| (before.percent >= mark) != (now.percent >= mark);
    before.health != now.health
        || before.percent.abs_diff(now.percent) >= limits::LOAD_CHANGE
        || crossed(limits::BUSY)
        || crossed(limits::FULL as u32)
}

/// Reports the load of a handler to the controllers of its meetings.
pub struct LoadReporter {
    handler: MediaHandler,
}

impl LoadReporter {
    /// A reporter of this handler.
    pub const fn new(handler: MediaHandler) -> Self {
        Self { handler }
    }

    /// Measures the load every second and reports what changed, until `stop`. Each controller has one call in progress.
    pub async fn run(self, stop: CancellationToken) {
        let clock = self.handler.options().clock.clone();
        let mut reported: HashMap<String, Notice> = HashMap::new();
        let mut calling: HashSet<String> = HashSet::new();
        let mut calls = JoinSet::new();
        let mut next = clock.now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                Some(ended) = calls.join_next() => {
                    if let Ok((endpoint, notice)) = ended {
                        calling.remove(&endpoint);
                        match notice {
                            Some(notice) => reported.insert(endpoint, notice),
                            // What it knows is not known.
                            None => reported.remove(&endpoint),
                        };
                    }
                    continue;
                }
                () = clock.sleep_until(next) => {}
            }
            next = clock.now() + limits::LOAD_PAUSE;
            let percent = self.handler.capacity_percent(&self.handler.measure());
            let notice = Notice { percent, health: self.handler.health(percent) };
            let served = self.controllers();
            reported.retain(|endpoint, _| served.contains(endpoint));
            for endpoint in served {
                let due = is_news(reported.get(&endpoint).copied(), notice) && !calling.contains(&endpoint);
                if due && calls.len() < limits::LOAD_CALLS {
                    calling.insert(endpoint.clone());
                    calls.spawn(notify(self.handler.clone(), endpoint, notice));
                }
            }
        }
    }

    /// The endpoints of the owners of all meetings.
    fn controllers(&self) -> BTreeSet<String> {
        let now = self.handler.options().clock.now();
        let endpoint = |meeting: &crate::media::Meeting| {
            let state = meeting.state.lock();
            let alive = state.control.is_alive(now);
            alive.then(|| state.control.owner.mc_endpoint.clone())
        };
        self.handler.meetings().iter().filter_map(|meeting| endpoint(meeting)).collect()
    }
}

/// Reports to one controller. Returns what it received, if it answered.
async fn notify(handler: MediaHandler, endpoint: String, notice: Notice) -> (String, Option<Notice>) {
    let options = handler.options();
    let Ok(channel) = options.channels.to(&endpoint) else { return (endpoint, None) };
    let mut request = MhLoadNotification {
        mh_id: handler.id().to_owned(),
        capacity_percent: notice.percent,
        estimated_available_streams: options.max_streams.saturating_sub(handler.stream_count()),
        ..MhLoadNotification::default()
    };
    request.set_health(notice.health);
    let mut controller = MediaCoordinationServiceClient::new(channel);
    let clock = &options.clock;
    let answer = tokio::select! {
        answer = controller.notify_load(request) => answer.ok(),
        () = clock.sleep_until(clock.now() + limits::LOAD_CALL) => None,
    };
    if answer.is_none() {
        tracing::debug!(target: metric::TARGET, endpoint, "load not reported");
    }
    (endpoint, answer.map(|_| notice))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_hears_of_changes_that_matter() {
        let notice = |percent, health| Notice { percent, health };
        let healthy = |percent| notice(percent, HealthStatus::Healthy);
        assert!(is_news(None, healthy(0)));
        for (before, now, news) in [
            (healthy(10), healthy(19), false),
            (healthy(10), healthy(20), true),
            (healthy(20), healthy(10), true),
            (healthy(79), healthy(80), true),
            (healthy(80), healthy(79), true),
            (healthy(81), healthy(89), false),
            (healthy(94), healthy(95), true),
            (healthy(10), notice(10, HealthStatus::Draining), true),
        ] {
            assert_eq!(is_news(Some(before), now), news, "{before:?} {now:?}");
        }
    }
}
