//! The four commands of the lease. Only a WebSocket connection can own it.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::{Value, json};
use tenure_keeper::OsEntropy;
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Entropy, Mode};

use super::{Command, Outcome, Run};
use crate::args::{Args, Field, Kind, optional, required};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::lease::{AcquireCheck, LeaseDenial, LeaseEvent, LeaseOwner, SCOPE};
use crate::service::{ControlService, Requester, locked_refusal};
use crate::telemetry;
use crate::wire::{self, AcquireReply, LeaseStatus};

/// Name of a client.
const NAME: Kind = Kind::Text { most: 64 };
const ID: Kind = Kind::Text { most: 64 };
const TOKEN: Kind = Kind::Text { most: 256 };
const REASON: Kind = Kind::Text { most: 64 };

const PROOF: &[Field] = &[required("leaseId", ID), required("leaseToken", TOKEN)];

const fn lease_command(
    name: &'static str,
    reply: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: Run,
) -> Command {
    Command { name, class: Class::Control, reply, about, fields, allow_unknown: true, run }
}

pub(super) const COMMANDS: &[Command] = &[
    lease_command(
        "control.acquire",
        "control.acquired",
        "acquires the lease, or extends the caller's own",
        &[
            optional("clientName", NAME),
            optional("clientInstanceId", Kind::Text { most: 128 }),
            optional("scope", Kind::Text { most: 64 }),
        ],
        Run::Async(|service, requester, args| {
            async move { acquire(&service, &requester, &args).await }.boxed()
        }),
    ),
    lease_command(
        "control.heartbeat",
        "control.heartbeatAck",
        "extends the caller's lease",
        PROOF,
        Run::Async(|service, requester, args| async move { heartbeat(&service, &requester, &args) }.boxed()),
    ),
    lease_command(
        "control.release",
        "control.released",
        "releases the caller's lease; idempotent",
        &[required("leaseId", ID), required("leaseToken", TOKEN), optional("reason", REASON)],
        Run::Async(|service, requester, args| async move { release(&service, &requester, &args) }.boxed()),
    ),
    lease_command(
        "control.status",
        "control.status",
        "owner and remaining time of the lease",
        &[],
        Run::Read(|service, state, _| Ok(json!(LeaseStatus::from(state.lease.view(service.now()))))),
    ),
];

fn client(requester: &Requester) -> Result<u32, Refusal> {
    requester
        .client
        .ok_or_else(|| Refusal::new(Code::INVALID_ACTION, "only a WebSocket connection can own the lease"))
}

async fn acquire(service: &Arc<ControlService>, requester: &Requester, args: &Args) -> Outcome {
    let client = client(requester)?;
    if args.text("scope").is_some_and(|scope| scope != SCOPE) {
        return Err(Refusal::new(Code::INVALID_VALUE, "`scope` must be `global`").field("scope"));
    }
    let owner = LeaseOwner {
        client,
        name: args.text("clientName").unwrap_or("Unknown").to_owned(),
        instance: args.text("clientInstanceId").unwrap_or_default().to_owned(),
    };
    let _lock = service.acquire_lock.lock().await;
    if let Some(reply) = check_existing(service, client)? {
        return Ok(reply);
    }
    let id = random_id("cl_");
    let guard = service.acquire_kernel_lease(&owner, &id).await?;
    let permit = guard.permit(std::time::Duration::ZERO);
    let token = permit
        .map_err(|error| Refusal::new(Code::OPERATION_FAILED, error.to_string()))?
        .fence(Mode::Strict)
        .token;
    service.device_store.save_last_token(service.fence()?, token.digest()).await?;
    service.check_serving()?;
    let mut state = service.lock_state();
    service.watch_kernel_lease(&guard, id.clone());
    let view = state.lease.grant(id, token.clone(), owner, service.now());
    state.guard = Some(guard);
    let reply = json!(AcquireReply::new(&view, &token));
    let reason = if broken(Break::ShowsControlToken) { token.reveal() } else { "acquire" };
    service.publish_lease(&mut state, LeaseEvent::Acquired, &view, reason);
    drop(state);
    service.expiry_wake.notify_one();
    Ok(reply)
}

/// Returns the reply if the caller already owns the lease, and a refusal if another client does.
fn check_existing(service: &ControlService, client: u32) -> Result<Option<Value>, Refusal> {
    let mut state = service.lock_state();
    let now = service.now();
    match state.lease.check_acquire(client, now) {
        AcquireCheck::Free => Ok(None),
        AcquireCheck::Owned(view) => {
            let reply = state.lease.token(client, now).map(|token| json!(AcquireReply::new(&view, token)));
            service.publish_lease(&mut state, LeaseEvent::Acquired, &view, "reacquire");
            Ok(reply)
        }
        AcquireCheck::Locked(view) => {
            telemetry::record_rejected(now, &view);
            Err(locked_refusal("Control lease is held by another client", &view))
        }
    }
}

fn heartbeat(service: &ControlService, requester: &Requester, args: &Args) -> Outcome {
    let (id, token) = (args.text("leaseId").unwrap_or_default(), args.text("leaseToken").unwrap_or_default());
    let mut state = service.lock_state();
    match state.lease.heartbeat(client(requester)?, id, token, service.now()) {
        Ok(view) => {
            let reply = wire::heartbeat_ack(&view);
            service.publish_lease(&mut state, LeaseEvent::Heartbeat, &view, "heartbeat");
            Ok(reply)
        }
        Err(denied) => {
            drop(state);
            Err(denial_refusal(service, requester, denied))
        }
    }
}

fn release(service: &ControlService, requester: &Requester, args: &Args) -> Outcome {
    let (id, token) = (args.text("leaseId").unwrap_or_default(), args.text("leaseToken").unwrap_or_default());
    let reason = args.text("reason").unwrap_or("user_release");
    let mut state = service.lock_state();
    let now = service.now();
    match state.lease.release(client(requester)?, id, token, reason, now) {
        Ok(ended) => {
            if let Some(ended) = ended {
                service.end_lease(&mut state, &ended);
            }
            Ok(wire::released(id, now, reason))
        }
        Err(denied) => {
            drop(state);
            Err(denial_refusal(service, requester, denied))
        }
    }
}

/// Converts a denial to a refusal. Wrong tokens are counted, and a principal with too many is rate-limited. The owner's
/// correct token never gets here.
fn denial_refusal(service: &ControlService, requester: &Requester, denied: LeaseDenial) -> Refusal {
    match denied {
        LeaseDenial::Expired => Refusal::new(Code::LEASE_EXPIRED, "Control lease has ended"),
        LeaseDenial::Locked(view) => locked_refusal("Control lease is held by another client", &view),
        LeaseDenial::Invalid => {
            if let Err(limited) = service.check_wrong_tokens(&requester.principal) {
                return limited;
            }
            service.wrong_tokens.lock().record(&requester.principal, service.tick());
            Refusal::new(Code::LEASE_INVALID, "leaseId or leaseToken does not match the active lease")
        }
    }
}

/// A random id: the prefix and twelve hexadecimal digits.
pub(super) fn random_id(prefix: &str) -> String {
    let mut bytes = [0; 6];
    OsEntropy.fill(&mut bytes);
    bytes.iter().fold(prefix.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}
