//! Who serves the device, and the kernel's side of the control lease.
//!
//! One process at a time holds the gate `control:device`; the others stand by. The control lease itself is the key
//! `control:global`, held by the serving process for the owner's connection: operators see it, may revoke it, and a new
//! server sweeps away what its predecessor left.

use std::sync::Arc;
use std::time::Duration;

use lease::{End, Fence, Key, Meta, Mode, Prefix, Ttl};
use lease_keeper::{Gate, Guard, Lost, Policy, Terms};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::code::{Code, Refusal};
use crate::desk::Inner;
use crate::herald;
use crate::lease::Owner;
use crate::telemetry::TARGET;

/// The key of the process that serves the device.
pub const GATE: &str = "control:device";
/// The key of the control lease.
pub const LEASE: &str = "control:global";

/// How much longer the kernel's lease lasts than the owner's.
const SLACK_MS: u64 = 1_000;
/// How long an acquire waits for a lease that is being given back.
const WAIT: Duration = Duration::from_secs(2);
/// How often a standby asks for the gate.
const ASK: Duration = Duration::from_millis(500);

/// What this process is to the device.
#[derive(Clone)]
pub(crate) enum Role {
    /// Another process serves, or nobody yet.
    Standby,
    /// This process serves.
    Serving(Arc<Serving>),
}

pub(crate) struct Serving {
    gate: Gate,
    /// Cancelled when this process serves no more: every socket ends with it.
    pub(crate) over: CancellationToken,
}

impl Role {
    /// Whether this process serves right now; reads the gate's clock.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Standby => false,
            Self::Serving(serving) => !serving.over.is_cancelled() && serving.gate.state().is_exclusive(),
        }
    }

    /// What a write of this process proves.
    pub(crate) fn fence(&self) -> Result<Fence, Refusal> {
        let not_ready = |why: &str| {
            Refusal::new(Code::SYSTEM_NOT_READY, format!("this process does not serve the device: {why}"))
        };
        let Self::Serving(serving) = self else { return Err(not_ready("it stands by")) };
        let permit = serving.gate.permit(Duration::ZERO).map_err(|error| not_ready(&error.to_string()))?;
        Ok(permit.fence(Mode::Strict))
    }
}

impl Inner {
    /// What a write of this process proves.
    pub(crate) fn fence(&self) -> Result<Fence, Refusal> {
        self.role.borrow().fence()
    }

    /// Ends with the service of this process, for those who stand on it.
    pub(crate) fn over(&self) -> CancellationToken {
        match &*self.role.borrow() {
            Role::Serving(serving) => serving.over.clone(),
            Role::Standby => {
                let over = CancellationToken::new();
                over.cancel();
                over
            }
        }
    }

    /// Takes the kernel's lease for an owner.
    pub(crate) async fn take(&self, owner: &Owner, id: &str) -> Result<Guard, Refusal> {
        let meta = json!({ "clientName": owner.name, "clientInstanceId": owner.instance, "leaseId": id });
        let terms = self.terms(meta.to_string()).map_err(|error| crate::vault::failed(&error))?;
        let key = Key::new(LEASE).map_err(|error| crate::vault::failed(&error))?;
        self.keeper.acquire(key, terms, WAIT).await.map_err(|error| match error {
            lease_keeper::Error::Store(error) => crate::vault::failed(&error),
            lease_keeper::Error::Busy { busy, .. } => {
                let left = busy.remaining.map_or(0, |left| left.as_millis() as u64);
                Refusal::new(Code::BUSY, format!("the lease cannot be had now: {}", busy.reason.as_str()))
                    .with("remainingMs", left)
            }
            error => Refusal::new(Code::OPERATION_FAILED, error.to_string()),
        })
    }

    fn terms(&self, meta: String) -> lease::Result<Terms> {
        // An engine that cannot keep it so long is asked for what it can: the keeper renews anyway.
        let can = self.keeper.store().capabilities();
        let ttl =
            Ttl::from_millis(u64::from(self.options.ttl_ms) + SLACK_MS)?.clamp(can.min_ttl, can.max_ttl);
        let heartbeat =
            Duration::from_millis(u64::from(self.options.heartbeat_ms)).min(ttl.as_duration() / 3);
        let terms = Terms::new(ttl).heartbeat(heartbeat).policy(Policy::Abort);
        // A name too long for the kernel is not worth refusing the lease for.
        Ok(match Meta::new(meta) {
            Ok(meta) => terms.meta(meta),
            Err(_) => terms,
        })
    }

    /// Ends the control lease when the kernel's is over before it.
    pub(crate) fn follow(self: &Arc<Self>, guard: &Guard, id: String) {
        let (lost, inner) = (guard.lost(), self.clone());
        self.tasks.spawn(async move {
            let reason = tokio::select! {
                biased;
                () = inner.ends.cancelled() => return,
                lost = lost => match lost {
                    Lost::Ended(End::Revoked) => "revoked",
                    Lost::Ended(End::Released) => return,
                    _ => "lease_lost",
                },
            };
            inner.revoke(&id, reason);
        });
    }
}

/// Serves whenever the gate can be had, until the end.
pub(crate) async fn run(inner: Arc<Inner>) {
    metrics::gauge!("control_serving").set(0.0);
    while !inner.ends.is_cancelled() {
        if let Some(serving) = open(&inner).await {
            serve(&inner, serving).await;
            continue;
        }
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => {}
            () = inner.uptime.sleep(ASK) => {}
        }
    }
}

async fn open(inner: &Arc<Inner>) -> Option<Arc<Serving>> {
    let terms = Terms::new(Ttl::from_millis(inner.options.gate_ttl.as_millis() as u64).ok()?);
    let over = CancellationToken::new();
    let lost = over.clone();
    let opened = Gate::open_with(&inner.keeper, Key::new(GATE).ok()?, terms, move |why| {
        tracing::error!(target: TARGET, %why, "the device is no longer served by this process");
        lost.cancel();
    });
    match opened.await {
        Ok(gate) => Some(Arc::new(Serving { gate, over })),
        Err(lease_keeper::Error::Busy { .. }) => None,
        Err(error) => {
            tracing::warn!(target: TARGET, %error, "cannot ask for the device");
            None
        }
    }
}

/// From the opening of the gate to its loss or the end of the process.
async fn serve(inner: &Arc<Inner>, serving: Arc<Serving>) {
    if let Err(error) = prepare(inner, &serving).await {
        tracing::warn!(target: TARGET, error, "cannot begin to serve the device");
    } else {
        metrics::gauge!("control_serving").set(1.0);
        tracing::info!(target: TARGET, "serving the device");
        inner.role.send_replace(Role::Serving(serving.clone()));
        tokio::select! {
            biased;
            () = inner.ends.cancelled() => {}
            () = serving.over.cancelled() => {}
        }
        if inner.ends.is_cancelled() {
            // While the gate still admits it.
            herald::save(inner).await;
        }
    }
    metrics::gauge!("control_serving").set(0.0);
    inner.role.send_replace(Role::Standby);
    let reason = if inner.ends.is_cancelled() { "server_shutdown" } else { "server_lost" };
    {
        let mut desk = inner.look();
        let id = desk.lease.standing_id().map(str::to_owned);
        if let Some(ended) = id.and_then(|id| desk.lease.revoke(&id, reason)) {
            inner.ended(&mut desk, &ended);
        }
    }
    // Everybody has been told; now the sockets end.
    serving.over.cancel();
    inner.keeper.settled().await;
    if let Some(serving) = Arc::into_inner(serving)
        && let Err(error) = serving.gate.close().await
    {
        tracing::debug!(target: TARGET, %error, "the gate was not given back; it ends with its TTL");
    }
}

/// Frees what a predecessor held and takes over what it left.
async fn prepare(inner: &Arc<Inner>, serving: &Serving) -> Result<(), String> {
    let prefix = Prefix::new(LEASE).map_err(|error| error.to_string())?;
    serving.gate.wipe(prefix).await.map_err(|error| error.to_string())?;
    let left = inner.vault.load().await.map_err(|error| error.to_string())?;
    let mut desk = inner.look();
    desk.lease.remember(left.last);
    desk.device.restore(left.kept, left.settings, left.presets);
    Ok(())
}
