//! Starting and ending a render stream.

use futures_util::FutureExt;
use serde_json::json;

use super::control::fresh;
use super::{Command, Outcome, Run, look};
use crate::args::{Args, Kind, may};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::desk::{Hand, Inner, locked};
use crate::lease::Standing;
use crate::stream::{LEDS, Wanted};
use crate::wire;

const ANY: Kind = Kind::Int { least: i64::MIN, most: i64::MAX };

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "render.stream.start",
        class: Class::Mutate,
        answer: "render.stream.started",
        about: "draws with frames of the owner from now on",
        fields: &[
            may("targetFps", ANY),
            may("staleTimeoutMs", ANY),
            may("desiredPixelFormat", Kind::Text { most: 32 }),
            may("desiredLedCount", ANY),
            may("clientName", Kind::Text { most: 64 }),
            may("clientInstanceId", Kind::Text { most: 128 }),
        ],
        open: false,
        run: Run::Act(|inner, hand, args| async move { start(&inner, &hand, &args) }.boxed()),
    },
    Command {
        name: "render.stream.stop",
        class: Class::Mutate,
        answer: "render.stream.stopped",
        about: "lets the device draw by itself again",
        fields: &[may("reason", Kind::Text { most: 64 })],
        open: false,
        run: Run::Act(|inner, hand, args| async move { stop(&inner, &hand, &args) }.boxed()),
    },
    look("render.stream.status", "whether frames come from outside", &[], |_, desk, _| {
        Ok(desk.stream.status())
    }),
];

fn start(inner: &Inner, hand: &Hand, args: &Args) -> Outcome {
    let mut desk = inner.look();
    let now = inner.now();
    match desk.lease.standing(hand.client, now) {
        Standing::Owner => {}
        Standing::Inactive => {
            return Err(Refusal::new(Code::LEASE_REQUIRED, "a render stream needs the control lease"));
        }
        Standing::Other => {
            return Err(locked("Control lease is held by another client", &desk.lease.view(now)));
        }
    }
    let mismatch =
        |field: &str, what: String| Err(Refusal::new(Code::STREAM_CONTRACT_MISMATCH, what).field(field));
    if args.text("desiredPixelFormat").is_some_and(|format| format != "rgb888") {
        return mismatch("desiredPixelFormat", "frames of version 1 are rgb888".into());
    }
    if args.int("desiredLedCount").is_some_and(|count| count != LEDS as i64) {
        return mismatch("desiredLedCount", format!("frames of version 1 have {LEDS} LEDs"));
    }
    let wanted = Wanted::clamp(args.int("targetFps"), args.int("staleTimeoutMs"));
    desk.stream.start(hand.client.unwrap_or_default(), wanted, || fresh("rs_"), now);
    let status = desk.stream.status();
    let mut told = status.clone();
    told["reason"] = "owner_started".into();
    inner.tell(wire::broadcast("render.stream.stateChanged", "render.stream.started", &told));
    drop(desk);
    inner.wake.notify_one();
    Ok(status)
}

fn stop(inner: &Inner, hand: &Hand, args: &Args) -> Outcome {
    let reason = args.text("reason").unwrap_or("user_stop");
    let mut desk = inner.look();
    let Some(owner) = desk.stream.owner() else {
        return Err(Refusal::new(Code::STREAM_NOT_ACTIVE, "no render stream is active"));
    };
    if Some(owner) != hand.client {
        return Err(locked("the render stream belongs to another client", &desk.lease.view(inner.now())));
    }
    let mut answer = desk.stream.stop().unwrap_or_else(|| json!({}));
    inner.stream_stopped(answer.clone(), reason);
    answer["stopped"] = true.into();
    answer["reason"] = reason.into();
    Ok(answer)
}
