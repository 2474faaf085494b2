//! Polls one target for as long as its lease allows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderValue, StatusCode};
use serde_json::Value;
use tenure_keeper::{GuardState, LeaseHandle, Lost, OsEntropy};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Entropy, Fence, Mode, Tick};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::events::{self, LeaseEvent};
use crate::fetch::{FetchError, FetchedResponse, Fetcher, Validators};
use crate::owned::TargetStatus;
use crate::result::PollResult;
use crate::schedule::{Next, PollTiming, Schedule};
use crate::sink::{PendingResult, Sink};
use crate::timer::TimerQueue;
use crate::{Settings, Target, limits};

/// What the workers of a node share.
pub(crate) struct WorkerContext {
    pub(crate) settings: Arc<Settings>,
    pub(crate) fetcher: Fetcher,
    pub(crate) sink: Sink,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) timers: Arc<TimerQueue>,
    pub(crate) instance: String,
}

/// The worker that polls one target.
pub(crate) struct Worker {
    pub(crate) context: Arc<WorkerContext>,
    pub(crate) held: LeaseHandle,
    pub(crate) target: watch::Receiver<Arc<Target>>,
    pub(crate) stop: CancellationToken,
    pub(crate) status: Arc<TargetStatus>,
}

/// What a worker keeps from poll to poll.
#[derive(Default)]
struct PollState {
    schedule: Schedule,
    validators: Validators,
    value: Value,
    /// Fingerprint of the last result.
    fingerprint: Option<u64>,
    last_published: Tick,
}

impl Worker {
    /// Polls until `stop` is cancelled, and then returns `None`, or until the lease is lost. A stop lets the request
    /// in flight finish; a loss aborts it.
    pub(crate) async fn run(mut self) -> Option<Lost> {
        let mut poll_state = PollState::default();
        let user_agent = self.user_agent();
        let mut states = self.held.states();
        let mut lost = pin!(self.held.lost());
        let (context, clock) = (self.context.clone(), self.context.clock.clone());
        let mut next = Next::Poll(Schedule::first_delay(self.timing(), random_unit()));
        let mut due = clock.now() + wait(next);
        loop {
            self.record_certainty();
            tokio::select! {
                biased;
                gone = &mut lost => return Some(gone),
                () = self.stop.cancelled() => return None,
                _ = states.changed() => continue,
                changed = self.target.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                    poll_state = PollState::default();
                    (next, due) = (Next::Poll(Duration::ZERO), clock.now());
                    continue;
                }
                () = context.timers.sleep_until(due) => {}
            }
            let slot = tokio::select! {
                biased;
                gone = &mut lost => return Some(gone),
                () = self.stop.cancelled() => return None,
                slot = context.fetcher.slots.acquire() => slot,
            };
            let start = clock.now();
            let Some(fence) = self.permit() else {
                events::record_no_permit();
                drop(slot);
                tokio::select! {
                    biased;
                    gone = &mut lost => return Some(gone),
                    () = self.stop.cancelled() => return None,
                    _ = states.changed() => {}
                    () = context.timers.sleep_until(start + self.timing().interval) => {}
                }
                continue;
            };
            next = match next {
                Next::Poll(_) => self.poll(&mut poll_state, &user_agent, fence, start).await,
                Next::Probe(_) => self.probe(&mut poll_state, &user_agent, fence, start).await,
            };
            drop(slot);
            due = clock.now() + wait(next);
        }
    }

    /// The `User-Agent` header: instance and generation. An endpoint may reject a generation older than the last one.
    fn user_agent(&self) -> HeaderValue {
        let text = format!(
            "tenure-poll/{} ({}; generation {})",
            env!("CARGO_PKG_VERSION"),
            self.context.instance,
            self.held.generation()
        );
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("tenure-poll"))
    }

    fn timing(&self) -> PollTiming {
        let (settings, interval) = (&self.context.settings, self.target.borrow().interval);
        PollTiming { interval, down_after: settings.down_after, backoff_max: settings.backoff_max }
    }

    /// Whether a request may start: the lease is held and certain. The first failed renewal ends that.
    fn permitted(held: &LeaseHandle) -> bool {
        let certain = held.state() == GuardState::Held || broken(Break::PollsInJeopardy);
        certain && held.permit(Duration::ZERO).is_ok()
    }

    fn permit(&self) -> Option<Fence> {
        if !Self::permitted(&self.held) {
            return None;
        }
        self.held.permit(Duration::ZERO).ok().map(|permit| permit.fence(Mode::Strict))
    }

    /// Logs once when ownership becomes uncertain, and once when it is certain again.
    fn record_certainty(&self) {
        let id = self.target.borrow().id.clone();
        let event = LeaseEvent {
            instance: &self.context.instance,
            endpoint: &id,
            generation: Some(self.held.generation()),
        };
        match self.held.state() {
            GuardState::Held if self.status.mark_certain() => event.certain(),
            GuardState::Jeopardy | GuardState::Suspended
                if self.status.mark_uncertain(self.context.clock.wall()) =>
            {
                event.uncertain()
            }
            _ => {}
        }
    }

    /// Completes when the lease is no longer exclusive.
    async fn exclusivity_lost(&self) {
        let mut states = self.held.states();
        while self.held.state().is_exclusive() {
            states.borrow_and_update();
            if !self.held.state().is_exclusive() || states.changed().await.is_err() {
                return;
            }
            self.record_certainty();
        }
    }

    async fn poll(
        &self,
        poll_state: &mut PollState,
        user_agent: &HeaderValue,
        fence: Fence,
        start: Tick,
    ) -> Next {
        let target = self.target.borrow().clone();
        let work = self
            .context
            .fetcher
            .poll(&target, user_agent, &poll_state.validators, || Self::permitted(&self.held));
        let answer = tokio::select! {
            biased;
            answer = work => answer,
            () = self.exclusivity_lost() => Err(FetchError::NotPermitted),
        };
        if matches!(answer, Err(FetchError::NotPermitted)) {
            events::record_no_permit();
            return Next::Poll(Duration::ZERO);
        }
        let took = self.context.clock.now().since(start);
        let mut result = self.new_result(&target, took);
        match answer {
            Ok(response) => apply_response(&target, response, poll_state, &mut result),
            Err(error) => {
                events::record_request(error.label(), took);
                result.error = Some(error.to_string());
            }
        }
        let next = match result.ok {
            true => poll_state.schedule.after_success(self.timing(), took, random_unit()),
            false => poll_state.schedule.after_failure(self.timing(), random_unit()),
        };
        self.publish_result(poll_state, result, fence, &target, start).await;
        next
    }

    async fn probe(
        &self,
        poll_state: &mut PollState,
        user_agent: &HeaderValue,
        fence: Fence,
        start: Tick,
    ) -> Next {
        let target = self.target.borrow().clone();
        let work = self.context.fetcher.probe(&target, user_agent, || Self::permitted(&self.held));
        let answer = tokio::select! {
            biased;
            answer = work => answer,
            () = self.exclusivity_lost() => Err(FetchError::NotPermitted),
        };
        let took = self.context.clock.now().since(start);
        let error = match answer {
            Err(FetchError::NotPermitted) => return Next::Probe(Duration::ZERO),
            // Any response other than a server error shows that the server is up, including one without HEAD support.
            Ok(status) if !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED => {
                events::record_request("probe", took);
                return poll_state.schedule.after_probe();
            }
            Ok(status) => format!("HTTP status {status}"),
            Err(error) => error.to_string(),
        };
        events::record_request("probe_failed", took);
        let next = poll_state.schedule.after_failure(self.timing(), random_unit());
        let result = PollResult { probe: true, error: Some(error), ..self.new_result(&target, took) };
        self.publish_result(poll_state, result, fence, &target, start).await;
        next
    }

    fn new_result(&self, target: &Target, took: Duration) -> PollResult {
        PollResult {
            id: target.id.clone(),
            generation: self.held.generation().to_string(),
            instance: self.context.instance.clone(),
            at: self.context.clock.wall().as_millis(),
            ok: false,
            probe: false,
            status: None,
            latency_ms: (took.as_secs_f64() * 1e6).round() / 1e3,
            bytes: 0,
            not_modified: false,
            changed: false,
            failures: 0,
            down: false,
            error: None,
            value: Value::Null,
        }
    }

    async fn publish_result(
        &self,
        poll_state: &mut PollState,
        mut result: PollResult,
        fence: Fence,
        target: &Target,
        now: Tick,
    ) {
        result.failures = poll_state.schedule.failures();
        result.down = poll_state.schedule.is_down(self.timing());
        let fingerprint = fingerprint(&result);
        result.changed = poll_state.fingerprint != Some(fingerprint);
        let settings = &self.context.settings;
        let due = poll_state.last_published == Tick::default()
            || now.since(poll_state.last_published) >= settings.refresh;
        let keep = !settings.only_changes || result.changed || due;
        poll_state.fingerprint = Some(fingerprint);
        if keep {
            poll_state.last_published = now;
        }
        let result = Arc::new(result);
        self.status.record_poll(&result);
        self.context.sink.send(PendingResult { result, fence, keep, webhook: target.webhook.clone() }).await;
    }
}

/// Fills in the result from a response.
fn apply_response(
    target: &Target,
    response: FetchedResponse,
    poll_state: &mut PollState,
    result: &mut PollResult,
) {
    let status = response.status;
    let took = Duration::from_secs_f64(result.latency_ms / 1e3);
    result.status = Some(status.as_u16());
    result.bytes = response.body.len();
    if status == StatusCode::NOT_MODIFIED {
        events::record_request("not_modified", took);
        (result.ok, result.not_modified) = (true, true);
        result.value = poll_state.value.clone();
        return;
    }
    if !status.is_success() {
        events::record_request("refused", took);
        result.error = Some(format!("HTTP status {status}"));
        return;
    }
    match target.extract.apply(&response.body) {
        Ok(value) => {
            events::record_request("ok", took);
            result.ok = true;
            result.value = if response.body.len() > limits::VALUE && json_size(&value) > limits::VALUE {
                Value::Null
            } else {
                value
            };
            poll_state.validators = response.validators;
            poll_state.value = result.value.clone();
        }
        Err(reason) => {
            events::record_request("unreadable", took);
            result.error = Some(reason);
        }
    }
}

fn json_size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// A hash of the parts of a result that do not change from poll to poll by themselves.
fn fingerprint(result: &PollResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (result.ok, result.down, result.status.filter(|status| *status != 304), &result.error).hash(&mut hasher);
    hash_json(&result.value, &mut hasher);
    hasher.finish()
}

fn hash_json(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.to_string().hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(list) => list.iter().for_each(|item| hash_json(item, hasher)),
        Value::Object(map) => map.iter().for_each(|(name, item)| {
            name.hash(hasher);
            hash_json(item, hasher);
        }),
    }
}

const fn wait(next: Next) -> Duration {
    match next {
        Next::Poll(wait) | Next::Probe(wait) => wait,
    }
}

/// A random number from 0 to 1.
pub(crate) fn random_unit() -> f64 {
    let mut bytes = [0; 4];
    OsEntropy.fill(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}
