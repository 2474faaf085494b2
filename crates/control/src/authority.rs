//! Selects the process that serves the device, and manages the kernel's side of the control lease.
//!
//! One process at a time holds the gate `control:device`; the others stand by. The control lease is the key
//! `control:global`, which the serving process holds on behalf of the owner's connection. Operators can see and revoke
//! it. A new server wipes the lease of its predecessor.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tenure_keeper::{Gate, Guard, Lost, Policy, Terms};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{End, Fence, Key, Meta, Mode, Prefix, Ttl};
use tokio_util::sync::CancellationToken;

use crate::background;
use crate::code::{Code, Refusal};
use crate::lease::LeaseOwner;
use crate::service::ControlService;
use crate::telemetry::TARGET;

/// The key of the gate.
pub const GATE: &str = "control:device";
/// The key of the control lease.
pub const LEASE: &str = "control:global";

/// How much longer the kernel's lease lasts than the owner's.
const KERNEL_TTL_MARGIN_MS: u64 = 1_000;
/// How long an acquire waits for a lease that is being released.
const ACQUIRE_WAIT: Duration = Duration::from_secs(2);
/// How often a standby tries to acquire the gate.
const GATE_RETRY: Duration = Duration::from_millis(500);

/// The role of this process.
#[derive(Clone)]
pub(crate) enum Role {
    /// Another process serves the device, or none does yet.
    Standby,
    /// This process serves the device.
    Serving(Arc<Serving>),
}

pub(crate) struct Serving {
    gate: Gate,
    /// Cancelled when this process stops serving; every connection shutdown with it.
    pub(crate) ended: CancellationToken,
}

impl Role {
    /// Whether this process serves the device now, by the gate's clock.
    pub(crate) fn serves(&self) -> bool {
        match self {
            Self::Standby => false,
            Self::Serving(serving) => !serving.ended.is_cancelled() && serving.gate.state().is_exclusive(),
        }
    }

    /// The fence for writes of this process.
    pub(crate) fn fence(&self) -> Result<Fence, Refusal> {
        let not_ready = |reason: &str| {
            Refusal::new(Code::SYSTEM_NOT_READY, format!("this process does not serve the device: {reason}"))
        };
        let Self::Serving(serving) = self else { return Err(not_ready("ownership by")) };
        let permit = serving.gate.permit(Duration::ZERO).map_err(|error| not_ready(&error.to_string()))?;
        Ok(permit.fence(Mode::Strict))
    }
}

impl ControlService {
    /// The fence for writes of this process.
    pub(crate) fn fence(&self) -> Result<Fence, Refusal> {
        self.role.borrow().fence()
    }

    /// A token that is cancelled when this process stops serving.
    pub(crate) fn serving_ended(&self) -> CancellationToken {
        match &*self.role.borrow() {
            Role::Serving(serving) => serving.ended.clone(),
            Role::Standby => {
                let over = CancellationToken::new();
                over.cancel();
                over
            }
        }
    }

    /// Acquires the kernel's lease for an owner.
    pub(crate) async fn acquire_kernel_lease(&self, owner: &LeaseOwner, id: &str) -> Result<Guard, Refusal> {
        let meta = json!({ "clientName": owner.name, "clientInstanceId": owner.instance, "leaseId": id });
        let terms =
            self.terms(meta.to_string()).map_err(|error| crate::device_store::store_refusal(&error))?;
        let key = Key::new(LEASE).map_err(|error| crate::device_store::store_refusal(&error))?;
        self.keeper.acquire(key, terms, ACQUIRE_WAIT).await.map_err(|error| match error {
            tenure_keeper::Error::Store(error) => crate::device_store::store_refusal(&error),
            tenure_keeper::Error::Busy { busy, .. } => {
                let left = busy.remaining.map_or(0, |left| left.as_millis() as u64);
                Refusal::new(Code::BUSY, format!("lease unavailable: {}", busy.reason.as_str()))
                    .with("remainingMs", left)
            }
            error => Refusal::new(Code::OPERATION_FAILED, error.to_string()),
        })
    }

    fn terms(&self, meta: String) -> tenure_lease::Result<Terms> {
        // The keeper renews the lease, so a TTL within the engine's limits is enough.
        let limits = self.keeper.store().capabilities();
        let ttl = Ttl::from_millis(u64::from(self.options.ttl_ms) + KERNEL_TTL_MARGIN_MS)?
            .clamp(limits.min_ttl, limits.max_ttl);
        let heartbeat =
            Duration::from_millis(u64::from(self.options.heartbeat_ms)).min(ttl.as_duration() / 3);
        let terms = Terms::new(ttl).heartbeat(heartbeat).policy(Policy::Abort);
        // Metadata too long for the kernel is omitted rather than refusing the lease.
        Ok(match Meta::new(meta) {
            Ok(meta) => terms.meta(meta),
            Err(_) => terms,
        })
    }

    /// Ends the control lease if the kernel's lease shutdown first.
    pub(crate) fn watch_kernel_lease(self: &Arc<Self>, guard: &Guard, id: String) {
        let (lost, service) = (guard.lost(), self.clone());
        self.tasks.spawn(async move {
            let reason = tokio::select! {
                biased;
                () = service.shutdown.cancelled() => return,
                lost = lost => match lost {
                    Lost::Ended(End::Revoked) => "revoked",
                    Lost::Ended(End::Released) => return,
                    _ => "lease_lost",
                },
            };
            service.revoke_lease(&id, reason);
        });
    }
}

/// Serves the device whenever this process holds the gate, until shutdown.
pub(crate) async fn run(service: Arc<ControlService>) {
    metrics::gauge!("tenure_control_serving").set(0.0);
    while !service.shutdown.is_cancelled() {
        if let Some(serving) = open_gate(&service).await {
            serve(&service, serving).await;
            continue;
        }
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => {}
            () = service.uptime.sleep(GATE_RETRY) => {}
        }
    }
}

async fn open_gate(service: &Arc<ControlService>) -> Option<Arc<Serving>> {
    let terms = Terms::new(Ttl::from_millis(service.options.gate_ttl.as_millis() as u64).ok()?);
    let ended = CancellationToken::new();
    let lost = ended.clone();
    let opened = Gate::open_with(&service.keeper, Key::new(GATE).ok()?, terms, move |reason| {
        tracing::error!(target: TARGET, why = %reason, "this process no longer serves the device");
        lost.cancel();
    });
    match opened.await {
        Ok(gate) => Some(Arc::new(Serving { gate, ended })),
        Err(tenure_keeper::Error::Busy { .. }) => None,
        Err(error) => {
            tracing::warn!(target: TARGET, %error, "cannot acquire the device");
            None
        }
    }
}

/// Serves the device until the gate is lost or the process shuts down.
async fn serve(service: &Arc<ControlService>, serving: Arc<Serving>) {
    if let Err(error) = take_over(service, &serving).await {
        tracing::warn!(target: TARGET, error, "cannot serve the device");
    } else {
        metrics::gauge!("tenure_control_serving").set(1.0);
        tracing::info!(target: TARGET, "serving the device");
        service.role.send_replace(Role::Serving(serving.clone()));
        tokio::select! {
            biased;
            () = service.shutdown.cancelled() => {}
            () = serving.ended.cancelled(), if !broken(Break::ServesWithoutGate) => {}
        }
        if service.shutdown.is_cancelled() {
            // The gate still permits the write.
            background::save_device(service).await;
        }
    }
    metrics::gauge!("tenure_control_serving").set(0.0);
    service.role.send_replace(Role::Standby);
    let reason = if service.shutdown.is_cancelled() { "server_shutdown" } else { "server_lost" };
    {
        let mut state = service.lock_state();
        let id = state.lease.active_id().map(str::to_owned);
        if let Some(ended) = id.and_then(|id| state.lease.revoke(&id, reason)) {
            service.end_lease(&mut state, &ended);
        }
    }
    // All clients have been notified; now their connections end.
    serving.ended.cancel();
    service.keeper.settled().await;
    if let Some(serving) = Arc::into_inner(serving)
        && let Err(error) = serving.gate.close().await
    {
        tracing::debug!(target: TARGET, %error, "cannot release the gate; it will expire");
    }
}

/// Wipes the predecessor's lease and loads the stored device.
async fn take_over(service: &Arc<ControlService>, serving: &Serving) -> Result<(), String> {
    let prefix = Prefix::new(LEASE).map_err(|error| error.to_string())?;
    serving.gate.wipe(prefix).await.map_err(|error| error.to_string())?;
    let stored = service.device_store.load().await.map_err(|error| error.to_string())?;
    let mut state = service.lock_state();
    state.lease.set_last_token(stored.last_token);
    state.device.restore(stored.snapshot, stored.settings, stored.presets);
    Ok(())
}
