//! The shared state of the service. Lease, device and stream change together under one lock, which is never held
//! across an await.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use axum::extract::ws::Utf8Bytes;
use bytes::Bytes;
use http::StatusCode;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tenure_keeper::{Guard, Keeper};
use tenure_lease::Tick;
use tenure_lease::breaks::{Break, broken};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authority::Role;
use crate::class::{Class, InputSource, allowed};
use crate::code::{Code, Refusal};
use crate::device::Device;
use crate::device_store::DeviceStore;
use crate::lease::{LeaseEnd, LeaseEvent, LeaseMachine, LeaseView, Ownership, ProofResult, SCOPE};
use crate::options::Options;
use crate::rate_limit::{RequestRates, WrongTokens};
use crate::stream::{FrameOutcome, RenderStream};
use crate::uptime::{Uptime, UptimeMs};
use crate::{telemetry, wire};

/// Broadcast messages that a client may lag behind before it is dropped.
const MAX_LAG: usize = 256;
/// HTTP requests per second and token.
const MAX_REQUEST_RATE: u32 = 200;

/// The header that proves ownership.
pub(crate) const LEASE_HEADER: &str = "x-control-lease";
/// The header that names the lease.
pub(crate) const LEASE_ID_HEADER: &str = "x-control-lease-id";

/// The state that changes under one lock.
pub(crate) struct ControlState {
    pub(crate) lease: LeaseMachine,
    /// The lease in the kernel; released when dropped.
    pub(crate) guard: Option<Guard>,
    pub(crate) stream: RenderStream,
    pub(crate) device: Device,
    pub(crate) blocked: BlockedCounters,
}

/// Commands blocked by the lease, by source.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct BlockedCounters {
    ws: u64,
    rest: u64,
    encoder: u64,
    serial: u64,
    last_event: UptimeMs,
}

impl BlockedCounters {
    pub(crate) fn count(&mut self, source: InputSource) {
        match source {
            InputSource::Ws => self.ws += 1,
            InputSource::Rest => self.rest += 1,
            InputSource::Encoder => self.encoder += 1,
            InputSource::Serial => self.serial += 1,
        }
    }

    pub(crate) fn json(&self) -> Value {
        json!({
            "blockedWsCommands": self.ws, "blockedRestRequests": self.rest,
            "blockedLocalEncoderInputs": self.encoder, "blockedLocalSerialInputs": self.serial,
            "lastLeaseEventMs": self.last_event.0,
        })
    }
}

/// Statistics of the renderer.
#[derive(Default)]
pub(crate) struct RenderStats {
    /// Frames drawn in the last second.
    pub(crate) fps: AtomicU32,
    /// Share of the frame period spent on drawing, in thousandths.
    pub(crate) busy: AtomicU32,
}

/// The client, connection or local input that issues a command.
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    pub(crate) source: InputSource,
    /// Its WebSocket connection, which can own the lease.
    pub(crate) client: Option<u32>,
    /// The lease token that an HTTP request carries.
    pub(crate) token: Option<String>,
    pub(crate) lease_id: Option<String>,
    /// The name of its API token.
    pub(crate) principal: Arc<str>,
    /// Whether it has the scope `control:write`.
    pub(crate) write: bool,
}

impl Requester {
    /// A local input.
    pub(crate) fn local(source: InputSource) -> Self {
        Self {
            source,
            client: None,
            token: None,
            lease_id: None,
            principal: source.as_str().into(),
            write: true,
        }
    }
}

/// The shared state of the service.
pub(crate) struct ControlService {
    pub(crate) options: Options,
    pub(crate) uptime: Uptime,
    state: Mutex<ControlState>,
    /// Messages for all clients.
    pub(crate) broadcasts: broadcast::Sender<Utf8Bytes>,
    /// The latest frame of the strip.
    pub(crate) frames: watch::Sender<Bytes>,
    pub(crate) role: watch::Sender<Role>,
    pub(crate) keeper: Keeper,
    pub(crate) device_store: DeviceStore,
    /// Serializes acquires in the kernel.
    pub(crate) acquire_lock: tokio::sync::Mutex<()>,
    /// Serializes writes to the device store.
    pub(crate) save_lock: tokio::sync::Mutex<()>,
    /// Wakes the task that shutdown expired leases and streams.
    pub(crate) expiry_wake: Notify,
    /// The revision of the device, for the tasks that publish and store it.
    pub(crate) revisions: watch::Sender<u64>,
    pub(crate) wrong_tokens: Mutex<WrongTokens>,
    rates: Mutex<RequestRates>,
    pub(crate) clients: AtomicUsize,
    next_client: AtomicU32,
    pub(crate) render_stats: RenderStats,
    pub(crate) tasks: TaskTracker,
    pub(crate) shutdown: CancellationToken,
}

impl ControlService {
    pub(crate) fn new(options: Options, keeper: Keeper) -> Arc<Self> {
        let uptime = Uptime::new(keeper.clock().clone(), options.uptime_offset);
        let state = ControlState {
            lease: LeaseMachine::new(options.ttl_ms, options.heartbeat_ms),
            guard: None,
            stream: RenderStream::default(),
            device: Device::default(),
            blocked: BlockedCounters::default(),
        };
        Arc::new(Self {
            device_store: DeviceStore::new(keeper.store().clone()),
            state: Mutex::new(state),
            broadcasts: broadcast::Sender::new(MAX_LAG),
            frames: watch::Sender::new(Bytes::new()),
            role: watch::Sender::new(Role::Standby),
            acquire_lock: tokio::sync::Mutex::new(()),
            save_lock: tokio::sync::Mutex::new(()),
            expiry_wake: Notify::new(),
            revisions: watch::Sender::new(0),
            wrong_tokens: Mutex::default(),
            rates: Mutex::default(),
            clients: AtomicUsize::new(0),
            next_client: AtomicU32::new(1),
            render_stats: RenderStats::default(),
            tasks: TaskTracker::new(),
            shutdown: CancellationToken::new(),
            options,
            uptime,
            keeper,
        })
    }

    pub(crate) fn now(&self) -> UptimeMs {
        self.uptime.now()
    }

    pub(crate) fn tick(&self) -> Tick {
        self.uptime.clock().now()
    }

    /// Locks the state, after ending an expired lease or stream.
    pub(crate) fn lock_state(&self) -> MutexGuard<'_, ControlState> {
        let mut state = self.state.lock();
        let now = self.now();
        if let Some(ended) = state.lease.expire(now) {
            self.end_lease(&mut state, &ended);
        }
        if let Some(last) = state.stream.expire(now) {
            self.publish_stream_stopped(last, "stale_timeout");
        }
        state
    }

    /// Broadcasts an acquired or extended lease.
    pub(crate) fn publish_lease(
        &self,
        state: &mut ControlState,
        event: LeaseEvent,
        view: &LeaseView,
        reason: &str,
    ) {
        state.blocked.last_event = self.now();
        telemetry::record_held(event, self.now(), view, reason);
        self.broadcast(wire::state_changed(event, view.clone()));
    }

    /// Broadcasts the end of the lease, and shutdown its stream.
    pub(crate) fn end_lease(&self, state: &mut ControlState, ended: &LeaseEnd) {
        state.blocked.last_event = self.now();
        // Dropping the guard releases the kernel's lease in the background.
        drop(state.guard.take());
        telemetry::record_ended(self.now(), ended);
        self.broadcast(wire::state_ended(ended));
        let reason = if ended.reason == "ws_disconnect" { "owner_disconnected" } else { "lease_lost" };
        if let Some(last) = state.stream.stop() {
            self.publish_stream_stopped(last, reason);
        }
    }

    /// Broadcasts the end of a stream.
    pub(crate) fn publish_stream_stopped(&self, mut last: Value, reason: &str) {
        last["reason"] = reason.into();
        self.broadcast(wire::broadcast("render.stream.stateChanged", "render.stream.stopped", &last));
    }

    pub(crate) fn broadcast(&self, text: Utf8Bytes) {
        // There may be no client.
        let _ = self.broadcasts.send(text);
    }

    /// Checks that this process serves the device, by its role and the gate's clock.
    pub(crate) fn check_serving(&self) -> Result<(), Refusal> {
        if self.role.borrow().serves() {
            return Ok(());
        }
        Err(Refusal::new(
            Code::SYSTEM_NOT_READY,
            "this process does not serve the device: it is starting or ownership by",
        ))
    }

    /// Checks whether the requester may run a command of this class now. Refusals are counted.
    pub(crate) fn admit(
        &self,
        state: &mut ControlState,
        requester: &Requester,
        class: Class,
        command: &str,
    ) -> Result<(), Refusal> {
        if class != Class::Mutate || broken(Break::AdmitsEverything) {
            return Ok(());
        }
        let now = self.now();
        let refusal = match requester.source {
            InputSource::Rest => {
                let proof =
                    state.lease.check_proof(requester.token.as_deref(), requester.lease_id.as_deref(), now);
                match proof_refusal(proof, &state.lease.view(now)) {
                    None => return Ok(()),
                    Some(refusal) => refusal,
                }
            }
            source => {
                if allowed(class, source, state.lease.ownership(requester.client, now)) {
                    return Ok(());
                }
                locked_refusal("Command blocked by active control lease", &state.lease.view(now))
            }
        };
        self.record_blocked(state, requester.source, command, refusal.code);
        Err(refusal)
    }

    fn record_blocked(&self, state: &mut ControlState, source: InputSource, command: &str, code: Code) {
        let now = self.now();
        state.blocked.count(source);
        telemetry::record_blocked(now, &state.lease.view(now), source, command, code.as_str());
    }

    /// Checks the lease token of an HTTP request, and delays clients that guess tokens.
    pub(crate) fn authorize_request(&self, requester: &Requester, route: &str) -> Result<(), Refusal> {
        if requester.token.is_some() {
            self.check_wrong_tokens(&requester.principal)?;
        }
        let mut state = self.lock_state();
        let proof =
            state.lease.check_proof(requester.token.as_deref(), requester.lease_id.as_deref(), self.now());
        if proof.is_wrong_token() {
            self.wrong_tokens.lock().record(&requester.principal, self.tick());
        }
        self.admit(&mut state, requester, Class::Mutate, route)
    }

    /// Refuses a principal that sent too many wrong tokens.
    pub(crate) fn check_wrong_tokens(&self, principal: &str) -> Result<(), Refusal> {
        let Some(wait) = self.wrong_tokens.lock().retry_after(principal, self.tick()) else { return Ok(()) };
        let wait = wait.as_millis().max(1) as u64;
        Err(Refusal::new(Code::RATE_LIMITED, "too many wrong lease tokens").with("retryAfterMs", wait))
    }

    /// Counts a request against the rate of its principal.
    pub(crate) fn check_rate(&self, principal: &str) -> Result<(), Refusal> {
        if self.rates.lock().admit(principal, MAX_REQUEST_RATE, self.tick()) {
            return Ok(());
        }
        Err(Refusal::new(Code::RATE_LIMITED, "too many requests").with("retryAfterMs", 1_000))
    }

    /// Handles a binary frame from a WebSocket.
    pub(crate) fn ingest_frame(&self, client: u32, bytes: &[u8]) {
        let ready = self.check_serving().is_ok();
        let mut state = self.lock_state();
        let now = self.now();
        let leased = ready && state.lease.ownership(Some(client), now) == Ownership::Owner;
        let outcome = state.stream.ingest(client, leased, bytes, now);
        if outcome == FrameOutcome::Blocked {
            self.record_blocked(&mut state, InputSource::Ws, "render.stream.frame", Code::CONTROL_LOCKED);
        }
        drop(state);
        telemetry::record_frame(outcome);
    }

    /// The id of a new connection. Ids repeat only after four billion connections.
    pub(crate) fn next_client_id(&self) -> u32 {
        self.next_client.fetch_add(1, Ordering::Relaxed).max(1)
    }

    /// Handles the end of a connection, and of its lease.
    pub(crate) fn disconnect(&self, client: u32) {
        let mut state = self.lock_state();
        if let Some(ended) = state.lease.disconnect(client) {
            self.end_lease(&mut state, &ended);
        }
    }

    /// Wakes the tasks that publish and store the device state.
    pub(crate) fn notify_changed(&self, state: &ControlState) {
        let revision = state.device.revision();
        self.revisions.send_if_modified(|last| std::mem::replace(last, revision) != revision);
    }

    /// Revokes the lease with this id.
    pub(crate) fn revoke_lease(&self, id: &str, reason: &str) {
        let mut state = self.lock_state();
        if let Some(ended) = state.lease.revoke(id, reason) {
            self.end_lease(&mut state, &ended);
        }
    }
}

/// The error for a lease held by another client.
pub(crate) fn locked_refusal(message: &str, view: &LeaseView) -> Refusal {
    Refusal::new(Code::CONTROL_LOCKED, message)
        .with("ownerClientName", view.owner.name.clone())
        .with("remainingMs", view.remaining)
        .with("scope", SCOPE)
}

/// The error for a request without valid proof of ownership.
fn proof_refusal(proof: ProofResult, view: &LeaseView) -> Option<Refusal> {
    let refusal = match proof {
        ProofResult::Free | ProofResult::Owner => return None,
        ProofResult::Missing => {
            Refusal { code: Code::LEASE_REQUIRED, ..locked_refusal("Control lease token is required", view) }
        }
        ProofResult::Invalid => Refusal {
            code: Code::LEASE_INVALID,
            ..locked_refusal("Control lease token is not valid for this lease", view)
        },
        ProofResult::Locked => locked_refusal("Control lease is held by another client", view),
        ProofResult::Expired => Refusal::new(Code::LEASE_EXPIRED, "Control lease has ended")
            .with("remainingMs", 0)
            .with("scope", SCOPE),
    };
    Some(refusal.with("requiredHeader", "X-Control-Lease"))
}

/// The error for a missing scope.
pub(crate) fn missing_scope(scope: &str) -> Refusal {
    Refusal::new(Code::UNAUTHORIZED, format!("scope {scope} is required"))
        .with("requiredScope", scope)
        .status(StatusCode::FORBIDDEN)
}
