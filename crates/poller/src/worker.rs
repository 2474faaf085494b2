//! Polls one target for as long as its lease allows.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use ::http::{HeaderValue, StatusCode};
use lease::{Clock, Entropy, Fence, Mode, Tick};
use lease_keeper::{Held, Lost, OsEntropy, State};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::alarm::Alarms;
use crate::events::{self, Who};
use crate::fetch::{FetchError, Fetcher, Reply, Validators};
use crate::holding::Status;
use crate::result::PollResult;
use crate::schedule::{Next, Pace, Schedule};
use crate::sink::{News, Sink};
use crate::{Settings, Target, limits};

/// What all workers of a node share.
pub(crate) struct Kit {
    pub(crate) settings: Arc<Settings>,
    pub(crate) fetcher: Fetcher,
    pub(crate) sink: Sink,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) alarms: Arc<Alarms>,
    pub(crate) instance: String,
}

/// One target's poller.
pub(crate) struct Worker {
    pub(crate) kit: Arc<Kit>,
    pub(crate) held: Held,
    pub(crate) target: watch::Receiver<Arc<Target>>,
    pub(crate) stop: CancellationToken,
    pub(crate) status: Arc<Status>,
}

/// What a worker remembers from poll to poll.
#[derive(Default)]
struct Memory {
    schedule: Schedule,
    validators: Validators,
    value: Value,
    /// What the last result amounted to.
    mark: Option<u64>,
    told: Tick,
}

impl Worker {
    /// Polls until told to stop, which is none, or until the lease is lost. A request under way is finished
    /// before a stop, and cut off at a loss.
    pub(crate) async fn run(mut self) -> Option<Lost> {
        let mut memory = Memory::default();
        let agent = self.agent();
        let mut states = self.held.states();
        let mut lost = pin!(self.held.lost());
        let (kit, clock) = (self.kit.clone(), self.kit.clock.clone());
        let mut next = Next::Poll(Schedule::first(self.pace(), chance()));
        let mut due = clock.now() + wait(next);
        loop {
            self.note_state();
            tokio::select! {
                biased;
                gone = &mut lost => return Some(gone),
                () = self.stop.cancelled() => return None,
                _ = states.changed() => continue,
                changed = self.target.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                    memory = Memory::default();
                    (next, due) = (Next::Poll(Duration::ZERO), clock.now());
                    continue;
                }
                () = kit.alarms.at(due) => {}
            }
            let slot = tokio::select! {
                biased;
                gone = &mut lost => return Some(gone),
                () = self.stop.cancelled() => return None,
                slot = kit.fetcher.slots.acquire() => slot,
            };
            let start = clock.now();
            let Some(fence) = self.permit() else {
                events::held_back();
                drop(slot);
                tokio::select! {
                    biased;
                    gone = &mut lost => return Some(gone),
                    () = self.stop.cancelled() => return None,
                    _ = states.changed() => {}
                    () = kit.alarms.at(start + self.pace().interval) => {}
                }
                continue;
            };
            next = match next {
                Next::Poll(_) => self.poll(&mut memory, &agent, fence, start).await,
                Next::Probe(_) => self.probe(&mut memory, &agent, fence, start).await,
            };
            drop(slot);
            due = clock.now() + wait(next);
        }
    }

    /// Who asks, and under which generation: a number that an endpoint may hold against an older one.
    fn agent(&self) -> HeaderValue {
        let text = format!(
            "tenure-poll/{} ({}; generation {})",
            env!("CARGO_PKG_VERSION"),
            self.kit.instance,
            self.held.generation()
        );
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("tenure-poll"))
    }

    fn pace(&self) -> Pace {
        let (settings, interval) = (&self.kit.settings, self.target.borrow().interval);
        Pace { interval, down_after: settings.down_after, backoff_max: settings.backoff_max }
    }

    /// Held, and not in any doubt: from the first failed renewal on nothing new is asked.
    fn permitted(held: &Held) -> bool {
        held.state() == State::Held && held.permit(Duration::ZERO).is_ok()
    }

    fn permit(&self) -> Option<Fence> {
        if self.held.state() != State::Held {
            return None;
        }
        self.held.permit(Duration::ZERO).ok().map(|permit| permit.fence(Mode::Strict))
    }

    /// Tells once when doubt begins, and once when it ends.
    fn note_state(&self) {
        let id = self.target.borrow().id.clone();
        let who =
            Who { instance: &self.kit.instance, endpoint: &id, generation: Some(self.held.generation()) };
        match self.held.state() {
            State::Held if self.status.certain() => who.certain_again(),
            State::Jeopardy | State::Suspended if self.status.uncertain(self.kit.clock.wall()) => {
                who.uncertain()
            }
            _ => {}
        }
    }

    /// Ends when nothing exclusive may go on.
    async fn cut(&self) {
        let mut states = self.held.states();
        while self.held.state().is_exclusive() {
            states.borrow_and_update();
            if !self.held.state().is_exclusive() || states.changed().await.is_err() {
                return;
            }
            self.note_state();
        }
    }

    async fn poll(&self, memory: &mut Memory, agent: &HeaderValue, fence: Fence, start: Tick) -> Next {
        let target = self.target.borrow().clone();
        let work = self.kit.fetcher.poll(&target, agent, &memory.validators, || Self::permitted(&self.held));
        let answer = tokio::select! {
            biased;
            answer = work => answer,
            () = self.cut() => Err(FetchError::NotPermitted),
        };
        if matches!(answer, Err(FetchError::NotPermitted)) {
            events::held_back();
            return Next::Poll(Duration::ZERO);
        }
        let took = self.kit.clock.now().since(start);
        let mut result = self.blank(&target, took);
        match answer {
            Ok(reply) => read(&target, reply, memory, &mut result),
            Err(error) => {
                events::polled(error.word(), took);
                result.error = Some(error.to_string());
            }
        }
        let next = match result.ok {
            true => memory.schedule.good(self.pace(), took, chance()),
            false => memory.schedule.bad(self.pace(), chance()),
        };
        self.tell(memory, result, fence, &target, start).await;
        next
    }

    async fn probe(&self, memory: &mut Memory, agent: &HeaderValue, fence: Fence, start: Tick) -> Next {
        let target = self.target.borrow().clone();
        let work = self.kit.fetcher.probe(&target, agent, || Self::permitted(&self.held));
        let answer = tokio::select! {
            biased;
            answer = work => answer,
            () = self.cut() => Err(FetchError::NotPermitted),
        };
        let took = self.kit.clock.now().since(start);
        let error = match answer {
            Err(FetchError::NotPermitted) => return Next::Probe(Duration::ZERO),
            // Any answer that is no fault of the server shows that it is there, also one that knows no HEAD.
            Ok(status) if !status.is_server_error() || status == StatusCode::NOT_IMPLEMENTED => {
                events::polled("probe", took);
                return memory.schedule.answered();
            }
            Ok(status) => format!("it answers {status}"),
            Err(error) => error.to_string(),
        };
        events::polled("probe_failed", took);
        let next = memory.schedule.bad(self.pace(), chance());
        let result = PollResult { probe: true, error: Some(error), ..self.blank(&target, took) };
        self.tell(memory, result, fence, &target, start).await;
        next
    }

    fn blank(&self, target: &Target, took: Duration) -> PollResult {
        PollResult {
            id: target.id.clone(),
            generation: self.held.generation().to_string(),
            instance: self.kit.instance.clone(),
            at: self.kit.clock.wall().as_millis(),
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

    async fn tell(
        &self,
        memory: &mut Memory,
        mut result: PollResult,
        fence: Fence,
        target: &Target,
        now: Tick,
    ) {
        result.failures = memory.schedule.failures();
        result.down = memory.schedule.is_down(self.pace());
        let mark = mark(&result);
        result.changed = memory.mark != Some(mark);
        let settings = &self.kit.settings;
        let due = memory.told == Tick::default() || now.since(memory.told) >= settings.refresh;
        let keep = !settings.only_changes || result.changed || due;
        memory.mark = Some(mark);
        if keep {
            memory.told = now;
        }
        let result = Arc::new(result);
        self.status.polled(&result);
        self.kit.sink.tell(News { result, fence, keep, webhook: target.webhook.clone() }).await;
    }
}

/// What an answer says.
fn read(target: &Target, reply: Reply, memory: &mut Memory, result: &mut PollResult) {
    let status = reply.status;
    let took = Duration::from_secs_f64(result.latency_ms / 1e3);
    result.status = Some(status.as_u16());
    result.bytes = reply.body.len();
    if status == StatusCode::NOT_MODIFIED {
        events::polled("not_modified", took);
        (result.ok, result.not_modified) = (true, true);
        result.value = memory.value.clone();
        return;
    }
    if !status.is_success() {
        events::polled("refused", took);
        result.error = Some(format!("it answers {status}"));
        return;
    }
    match target.extract.read(&reply.body) {
        Ok(value) => {
            events::polled("ok", took);
            result.ok = true;
            result.value = if reply.body.len() > limits::SHOWN && size(&value) > limits::SHOWN {
                Value::Null
            } else {
                value
            };
            memory.validators = reply.validators;
            memory.value = result.value.clone();
        }
        Err(why) => {
            events::polled("unreadable", took);
            result.error = Some(why);
        }
    }
}

fn size(value: &Value) -> usize {
    serde_json::to_vec(value).map_or(usize::MAX, |bytes| bytes.len())
}

/// A number for all of a result that is not about this one poll.
fn mark(result: &PollResult) -> u64 {
    let mut hasher = DefaultHasher::new();
    (result.ok, result.down, result.status.filter(|status| *status != 304), &result.error).hash(&mut hasher);
    hash(&result.value, &mut hasher);
    hasher.finish()
}

fn hash(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Null => 0_u8.hash(hasher),
        Value::Bool(value) => value.hash(hasher),
        Value::Number(number) => number.to_string().hash(hasher),
        Value::String(text) => text.hash(hasher),
        Value::Array(list) => list.iter().for_each(|item| hash(item, hasher)),
        Value::Object(map) => map.iter().for_each(|(name, item)| {
            name.hash(hasher);
            hash(item, hasher);
        }),
    }
}

const fn wait(next: Next) -> Duration {
    match next {
        Next::Poll(wait) | Next::Probe(wait) => wait,
    }
}

/// A number from 0 to 1.
pub(crate) fn chance() -> f64 {
    let mut bytes = [0; 4];
    OsEntropy.fill(&mut bytes);
    f64::from(u32::from_be_bytes(bytes)) / f64::from(u32::MAX)
}
