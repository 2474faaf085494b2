//! The one place where lease, device and stream meet. Everything that must be decided together is decided under its
//! lock; nothing waits while holding it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use axum::extract::ws::Utf8Bytes;
use bytes::Bytes;
use http::StatusCode;
use lease::Tick;
use lease_keeper::{Guard, Keeper};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authority::Role;
use crate::class::{Class, Source, allowed};
use crate::code::{Code, Refusal};
use crate::device::Device;
use crate::guesses::{Guesses, Rates};
use crate::lease::{Ended, Event, Machine, Proof, SCOPE, Standing, View};
use crate::options::Options;
use crate::stream::{Fate, Stream};
use crate::uptime::{Ms, Uptime};
use crate::vault::Vault;
use crate::{telemetry, wire};

/// Messages that a reader may be behind before it is dropped.
const BEHIND: usize = 256;
/// HTTP requests per second and token.
const REQUESTS: u32 = 200;

/// The header that proves ownership.
pub(crate) const LEASE_HEADER: &str = "x-control-lease";
/// The header that names the lease.
pub(crate) const LEASE_ID_HEADER: &str = "x-control-lease-id";

/// What is decided together.
pub(crate) struct Desk {
    pub(crate) lease: Machine,
    /// The lease in the kernel; given back when dropped.
    pub(crate) guard: Option<Guard>,
    pub(crate) stream: Stream,
    pub(crate) device: Device,
    pub(crate) blocked: Blocked,
}

/// How often the lease was in the way.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Blocked {
    ws: u64,
    rest: u64,
    encoder: u64,
    serial: u64,
    last_event: Ms,
}

impl Blocked {
    pub(crate) fn count(&mut self, source: Source) {
        match source {
            Source::Ws => self.ws += 1,
            Source::Rest => self.rest += 1,
            Source::Encoder => self.encoder += 1,
            Source::Serial => self.serial += 1,
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

/// How the renderer does.
#[derive(Default)]
pub(crate) struct Pace {
    /// Frames in the last second.
    pub(crate) fps: AtomicU32,
    /// Share of a frame's time spent on drawing it, in thousandths.
    pub(crate) busy: AtomicU32,
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Hand {
    pub(crate) source: Source,
    /// Its connection, if it has one that can own the lease.
    pub(crate) client: Option<u32>,
    /// What a request proves.
    pub(crate) token: Option<String>,
    pub(crate) lease_id: Option<String>,
    /// Whose API token it is.
    pub(crate) principal: Arc<str>,
    /// Whether it may change anything at all.
    pub(crate) write: bool,
}

impl Hand {
    /// A hand on the device itself.
    pub(crate) fn local(source: Source) -> Self {
        Self {
            source,
            client: None,
            token: None,
            lease_id: None,
            principal: source.word().into(),
            write: true,
        }
    }
}

/// What every part of the service shares.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) uptime: Uptime,
    desk: Mutex<Desk>,
    /// What everybody hears.
    pub(crate) news: broadcast::Sender<Utf8Bytes>,
    /// The newest picture of the strip.
    pub(crate) frames: watch::Sender<Bytes>,
    pub(crate) role: watch::Sender<Role>,
    pub(crate) keeper: Keeper,
    pub(crate) vault: Vault,
    /// One acquire at a time goes to the kernel.
    pub(crate) taking: tokio::sync::Mutex<()>,
    /// One change of stored things at a time.
    pub(crate) saving: tokio::sync::Mutex<()>,
    /// Wakes whoever watches for ends.
    pub(crate) wake: Notify,
    /// The device's revision, for whoever tells or stores it.
    pub(crate) revised: watch::Sender<u64>,
    pub(crate) guesses: Mutex<Guesses>,
    rates: Mutex<Rates>,
    pub(crate) clients: AtomicUsize,
    next_client: AtomicU32,
    pub(crate) pace: Pace,
    pub(crate) tasks: TaskTracker,
    pub(crate) ends: CancellationToken,
}

impl Inner {
    pub(crate) fn new(options: Options, keeper: Keeper) -> Arc<Self> {
        let uptime = Uptime::new(keeper.clock().clone(), options.uptime_offset);
        let desk = Desk {
            lease: Machine::new(options.ttl_ms, options.heartbeat_ms),
            guard: None,
            stream: Stream::default(),
            device: Device::default(),
            blocked: Blocked::default(),
        };
        Arc::new(Self {
            vault: Vault::new(keeper.store().clone()),
            desk: Mutex::new(desk),
            news: broadcast::Sender::new(BEHIND),
            frames: watch::Sender::new(Bytes::new()),
            role: watch::Sender::new(Role::Standby),
            taking: tokio::sync::Mutex::new(()),
            saving: tokio::sync::Mutex::new(()),
            wake: Notify::new(),
            revised: watch::Sender::new(0),
            guesses: Mutex::default(),
            rates: Mutex::default(),
            clients: AtomicUsize::new(0),
            next_client: AtomicU32::new(1),
            pace: Pace::default(),
            tasks: TaskTracker::new(),
            ends: CancellationToken::new(),
            options,
            uptime,
            keeper,
        })
    }

    pub(crate) fn now(&self) -> Ms {
        self.uptime.now()
    }

    pub(crate) fn tick(&self) -> Tick {
        self.uptime.clock().now()
    }

    /// The desk, with what is over ended first.
    pub(crate) fn look(&self) -> MutexGuard<'_, Desk> {
        let mut desk = self.desk.lock();
        let now = self.now();
        if let Some(ended) = desk.lease.expire(now) {
            self.ended(&mut desk, &ended);
        }
        if let Some(last) = desk.stream.expire(now) {
            self.stream_stopped(last, "stale_timeout");
        }
        desk
    }

    /// Tells everybody that somebody holds.
    pub(crate) fn held(&self, desk: &mut Desk, event: Event, view: &View, reason: &str) {
        desk.blocked.last_event = self.now();
        telemetry::held(event, self.now(), view, reason);
        self.tell(wire::state_changed(event, view.clone()));
    }

    /// Tells everybody that the lease is over, and ends what stood on it.
    pub(crate) fn ended(&self, desk: &mut Desk, ended: &Ended) {
        desk.blocked.last_event = self.now();
        // The kernel's lease goes back without anybody waiting for it.
        drop(desk.guard.take());
        telemetry::ended(self.now(), ended);
        self.tell(wire::state_ended(ended));
        let reason = if ended.reason == "ws_disconnect" { "owner_disconnected" } else { "lease_lost" };
        if let Some(last) = desk.stream.stop() {
            self.stream_stopped(last, reason);
        }
    }

    /// Tells everybody that a stream is over.
    pub(crate) fn stream_stopped(&self, mut last: Value, reason: &str) {
        last["reason"] = reason.into();
        self.tell(wire::broadcast("render.stream.stateChanged", "render.stream.stopped", &last));
    }

    pub(crate) fn tell(&self, text: Utf8Bytes) {
        // Nobody there is as good as heard.
        let _ = self.news.send(text);
    }

    /// Whether this process serves the device now: by role and by the gate's own clock.
    pub(crate) fn ready(&self) -> Result<(), Refusal> {
        if self.role.borrow().serves() {
            return Ok(());
        }
        Err(Refusal::new(
            Code::SYSTEM_NOT_READY,
            "this process does not serve the device; another does, or it is starting",
        ))
    }

    /// Whether a hand may do something of this class now. A refusal is counted.
    pub(crate) fn admit(
        &self,
        desk: &mut Desk,
        hand: &Hand,
        class: Class,
        command: &str,
    ) -> Result<(), Refusal> {
        if class != Class::Mutate {
            return Ok(());
        }
        let now = self.now();
        let refusal = match hand.source {
            Source::Rest => {
                let proof = desk.lease.prove(hand.token.as_deref(), hand.lease_id.as_deref(), now);
                match proof_refusal(proof, &desk.lease.view(now)) {
                    None => return Ok(()),
                    Some(refusal) => refusal,
                }
            }
            source => {
                if allowed(class, source, desk.lease.standing(hand.client, now)) {
                    return Ok(());
                }
                locked("Command blocked by active control lease", &desk.lease.view(now))
            }
        };
        self.refused(desk, hand.source, command, refusal.code);
        Err(refusal)
    }

    fn refused(&self, desk: &mut Desk, source: Source, command: &str, code: Code) {
        let now = self.now();
        desk.blocked.count(source);
        telemetry::blocked(now, &desk.lease.view(now), source, command, code.word());
    }

    /// Judges a request's proof, holding guessers back.
    pub(crate) fn judge(&self, hand: &Hand, route: &str) -> Result<(), Refusal> {
        if hand.token.is_some() {
            self.hold_back(&hand.principal)?;
        }
        let mut desk = self.look();
        let proof = desk.lease.prove(hand.token.as_deref(), hand.lease_id.as_deref(), self.now());
        if proof.is_wrong_token() {
            self.guesses.lock().note(&hand.principal, self.tick());
        }
        self.admit(&mut desk, hand, Class::Mutate, route)
    }

    /// Refuses a principal that guessed too often.
    pub(crate) fn hold_back(&self, principal: &str) -> Result<(), Refusal> {
        let Some(wait) = self.guesses.lock().wait(principal, self.tick()) else { return Ok(()) };
        let wait = wait.as_millis().max(1) as u64;
        Err(Refusal::new(Code::RATE_LIMITED, "too many wrong lease tokens").with("retryAfterMs", wait))
    }

    /// Counts a request against its principal's rate.
    pub(crate) fn meter(&self, principal: &str) -> Result<(), Refusal> {
        if self.rates.lock().admit(principal, REQUESTS, self.tick()) {
            return Ok(());
        }
        Err(Refusal::new(Code::RATE_LIMITED, "too many requests").with("retryAfterMs", 1_000))
    }

    /// A frame from a socket.
    pub(crate) fn frame(&self, client: u32, bytes: &[u8]) {
        let ready = self.ready().is_ok();
        let mut desk = self.look();
        let now = self.now();
        let leased = ready && desk.lease.standing(Some(client), now) == Standing::Owner;
        let fate = desk.stream.ingest(client, leased, bytes, now);
        if fate == Fate::Blocked {
            self.refused(&mut desk, Source::Ws, "render.stream.frame", Code::CONTROL_LOCKED);
        }
        drop(desk);
        telemetry::frame(fate);
    }

    /// A number for a new connection. Numbers come again only after four billion connections.
    pub(crate) fn number(&self) -> u32 {
        self.next_client.fetch_add(1, Ordering::Relaxed).max(1)
    }

    /// A connection is gone: its lease with it.
    pub(crate) fn left(&self, client: u32) {
        let mut desk = self.look();
        if let Some(ended) = desk.lease.disconnect(client) {
            self.ended(&mut desk, &ended);
        }
    }

    /// Tells and stores what changed, soon.
    pub(crate) fn changed(&self, desk: &Desk) {
        let revision = desk.device.revision();
        self.revised.send_if_modified(|last| std::mem::replace(last, revision) != revision);
    }

    /// Ends the lease from above, whoever holds it.
    pub(crate) fn revoke(&self, id: &str, reason: &str) {
        let mut desk = self.look();
        if let Some(ended) = desk.lease.revoke(id, reason) {
            self.ended(&mut desk, &ended);
        }
    }
}

/// The canonical error of somebody else's lease.
pub(crate) fn locked(message: &str, view: &View) -> Refusal {
    Refusal::new(Code::CONTROL_LOCKED, message)
        .with("ownerClientName", view.owner.name.clone())
        .with("remainingMs", view.remaining)
        .with("scope", SCOPE)
}

/// What a request without the right proof is told.
fn proof_refusal(proof: Proof, view: &View) -> Option<Refusal> {
    let refusal = match proof {
        Proof::Free | Proof::Owner => return None,
        Proof::Missing => {
            Refusal { code: Code::LEASE_REQUIRED, ..locked("Control lease token is required", view) }
        }
        Proof::Invalid => Refusal {
            code: Code::LEASE_INVALID,
            ..locked("Control lease token is not valid for this lease", view)
        },
        Proof::Locked => locked("Control lease is held by another client", view),
        Proof::Expired => Refusal::new(Code::LEASE_EXPIRED, "Control lease has ended")
            .with("remainingMs", 0)
            .with("scope", SCOPE),
    };
    Some(refusal.with("requiredHeader", "X-Control-Lease"))
}

/// A scope that the caller lacks.
pub(crate) fn lacks(scope: &str) -> Refusal {
    Refusal::new(Code::UNAUTHORIZED, format!("the scope {scope} is needed for this"))
        .with("requiredScope", scope)
        .status(StatusCode::FORBIDDEN)
}
