//! The four commands of the lease. Only a WebSocket has a connection that can own it.

use std::sync::Arc;

use futures_util::FutureExt;
use lease::{Entropy, Mode};
use lease_keeper::OsEntropy;
use serde_json::{Value, json};

use super::{Command, Outcome, Run};
use crate::args::{Args, Field, Kind, may, needs};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::desk::{Hand, Inner, locked};
use crate::lease::{Asked, Denied, Event, Owner, SCOPE};
use crate::telemetry;
use crate::wire::{self, Acquired, Status};

/// The longest name of a client.
const NAME: Kind = Kind::Text { most: 64 };
const ID: Kind = Kind::Text { most: 64 };
const TOKEN: Kind = Kind::Text { most: 256 };
const REASON: Kind = Kind::Text { most: 64 };

const PROOF: &[Field] = &[needs("leaseId", ID), needs("leaseToken", TOKEN)];

const fn of_lease(
    name: &'static str,
    answer: &'static str,
    about: &'static str,
    fields: &'static [Field],
    run: Run,
) -> Command {
    Command { name, class: Class::Control, answer, about, fields, open: true, run }
}

pub(super) const COMMANDS: &[Command] = &[
    of_lease(
        "control.acquire",
        "control.acquired",
        "takes the lease, or refreshes one's own",
        &[
            may("clientName", NAME),
            may("clientInstanceId", Kind::Text { most: 128 }),
            may("scope", Kind::Text { most: 64 }),
        ],
        Run::Act(|inner, hand, args| async move { acquire(&inner, &hand, &args).await }.boxed()),
    ),
    of_lease(
        "control.heartbeat",
        "control.heartbeatAck",
        "prolongs one's lease",
        PROOF,
        Run::Act(|inner, hand, args| async move { heartbeat(&inner, &hand, &args) }.boxed()),
    ),
    of_lease(
        "control.release",
        "control.released",
        "gives one's lease up; again is the same as once",
        &[needs("leaseId", ID), needs("leaseToken", TOKEN), may("reason", REASON)],
        Run::Act(|inner, hand, args| async move { release(&inner, &hand, &args) }.boxed()),
    ),
    of_lease(
        "control.status",
        "control.status",
        "who holds the lease, and for how long",
        &[],
        Run::Look(|inner, desk, _| Ok(json!(Status::from(desk.lease.view(inner.now()))))),
    ),
];

fn client(hand: &Hand) -> Result<u32, Refusal> {
    hand.client
        .ok_or_else(|| Refusal::new(Code::INVALID_ACTION, "only a WebSocket connection can own the lease"))
}

async fn acquire(inner: &Arc<Inner>, hand: &Hand, args: &Args) -> Outcome {
    let client = client(hand)?;
    if args.text("scope").is_some_and(|scope| scope != SCOPE) {
        return Err(Refusal::new(Code::INVALID_VALUE, "the only scope is `global`").field("scope"));
    }
    let owner = Owner {
        client,
        name: args.text("clientName").unwrap_or("Unknown").to_owned(),
        instance: args.text("clientInstanceId").unwrap_or_default().to_owned(),
    };
    let _turn = inner.taking.lock().await;
    if let Some(answer) = ask(inner, client)? {
        return Ok(answer);
    }
    let id = fresh("cl_");
    let guard = inner.take(&owner, &id).await?;
    let permit = guard.permit(std::time::Duration::ZERO);
    let token = permit
        .map_err(|error| Refusal::new(Code::OPERATION_FAILED, error.to_string()))?
        .fence(Mode::Strict)
        .token;
    inner.vault.last(inner.fence()?, token.digest()).await?;
    inner.ready()?;
    let mut desk = inner.look();
    inner.follow(&guard, id.clone());
    let view = desk.lease.grant(id, token.clone(), owner, inner.now());
    desk.guard = Some(guard);
    let answer = json!(Acquired::new(&view, &token));
    inner.held(&mut desk, Event::Acquired, &view, "acquire");
    drop(desk);
    inner.wake.notify_one();
    Ok(answer)
}

/// The answer, if the lease is the caller's already; a refusal, if it is somebody else's.
fn ask(inner: &Inner, client: u32) -> Result<Option<Value>, Refusal> {
    let mut desk = inner.look();
    let now = inner.now();
    match desk.lease.ask(client, now) {
        Asked::Free => Ok(None),
        Asked::Mine(view) => {
            let answer = desk.lease.secret(client, now).map(|token| json!(Acquired::new(&view, token)));
            inner.held(&mut desk, Event::Acquired, &view, "reacquire");
            Ok(answer)
        }
        Asked::Locked(view) => {
            telemetry::rejected(now, &view);
            Err(locked("Control lease is held by another client", &view))
        }
    }
}

fn heartbeat(inner: &Inner, hand: &Hand, args: &Args) -> Outcome {
    let (id, token) = (args.text("leaseId").unwrap_or_default(), args.text("leaseToken").unwrap_or_default());
    let mut desk = inner.look();
    match desk.lease.heartbeat(client(hand)?, id, token, inner.now()) {
        Ok(view) => {
            let answer = wire::heartbeat_ack(&view);
            inner.held(&mut desk, Event::Heartbeat, &view, "heartbeat");
            Ok(answer)
        }
        Err(denied) => {
            drop(desk);
            Err(refused(inner, hand, denied))
        }
    }
}

fn release(inner: &Inner, hand: &Hand, args: &Args) -> Outcome {
    let (id, token) = (args.text("leaseId").unwrap_or_default(), args.text("leaseToken").unwrap_or_default());
    let reason = args.text("reason").unwrap_or("user_release");
    let mut desk = inner.look();
    let now = inner.now();
    match desk.lease.release(client(hand)?, id, token, reason, now) {
        Ok(ended) => {
            if let Some(ended) = ended {
                inner.ended(&mut desk, &ended);
            }
            Ok(wire::released(id, now, reason))
        }
        Err(denied) => {
            drop(desk);
            Err(refused(inner, hand, denied))
        }
    }
}

/// Wrong tokens are counted, and a principal with too many is told nothing more for a while. The owner's right token is
/// never held back: it does not come here.
fn refused(inner: &Inner, hand: &Hand, denied: Denied) -> Refusal {
    match denied {
        Denied::Expired => Refusal::new(Code::LEASE_EXPIRED, "Control lease has ended"),
        Denied::Locked(view) => locked("Control lease is held by another client", &view),
        Denied::Invalid => {
            if let Err(held_back) = inner.hold_back(&hand.principal) {
                return held_back;
            }
            inner.guesses.lock().note(&hand.principal, inner.tick());
            Refusal::new(Code::LEASE_INVALID, "leaseId or leaseToken does not match the active lease")
        }
    }
}

/// A random name: the prefix and twelve hexadecimal digits.
pub(super) fn fresh(prefix: &str) -> String {
    let mut bytes = [0; 6];
    OsEntropy.fill(&mut bytes);
    bytes.iter().fold(prefix.to_owned(), |name, byte| format!("{name}{byte:02x}"))
}
