//! Commands that start and stop a render stream.

use futures_util::FutureExt;
use serde_json::json;

use super::control::random_id;
use super::{Command, Outcome, Run, read};
use crate::args::{Args, Kind, optional};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::lease::Ownership;
use crate::service::{ControlService, Requester, locked_refusal};
use crate::stream::{LEDS, StreamParams};
use crate::wire;

const ANY: Kind = Kind::Int { least: i64::MIN, most: i64::MAX };

pub(super) const COMMANDS: &[Command] = &[
    Command {
        name: "render.stream.start",
        class: Class::Mutate,
        reply: "render.stream.started",
        about: "starts rendering frames of the owner",
        fields: &[
            optional("targetFps", ANY),
            optional("staleTimeoutMs", ANY),
            optional("desiredPixelFormat", Kind::Text { most: 32 }),
            optional("desiredLedCount", ANY),
            optional("clientName", Kind::Text { most: 64 }),
            optional("clientInstanceId", Kind::Text { most: 128 }),
        ],
        allow_unknown: false,
        run: Run::Async(|service, requester, args| async move { start(&service, &requester, &args) }.boxed()),
    },
    Command {
        name: "render.stream.stop",
        class: Class::Mutate,
        reply: "render.stream.stopped",
        about: "returns to the internal renderer",
        fields: &[optional("reason", Kind::Text { most: 64 })],
        allow_unknown: false,
        run: Run::Async(|service, requester, args| async move { stop(&service, &requester, &args) }.boxed()),
    },
    read("render.stream.status", "reads the status of the render stream", &[], |_, state, _| {
        Ok(state.stream.status())
    }),
];

fn start(service: &ControlService, requester: &Requester, args: &Args) -> Outcome {
    let mut state = service.lock_state();
    let now = service.now();
    match state.lease.ownership(requester.client, now) {
        Ownership::Owner => {}
        Ownership::Inactive => {
            return Err(Refusal::new(Code::LEASE_REQUIRED, "a render stream requires the control lease"));
        }
        Ownership::Other => {
            return Err(locked_refusal("Control lease is held by another client", &state.lease.view(now)));
        }
    }
    let mismatch = |field: &str, message: String| {
        Err(Refusal::new(Code::STREAM_CONTRACT_MISMATCH, message).field(field))
    };
    if args.text("desiredPixelFormat").is_some_and(|format| format != "rgb888") {
        return mismatch("desiredPixelFormat", "version 1 frames are rgb888".into());
    }
    if args.int("desiredLedCount").is_some_and(|count| count != LEDS as i64) {
        return mismatch("desiredLedCount", format!("version 1 frames have {LEDS} LEDs"));
    }
    let params = StreamParams::clamp(args.int("targetFps"), args.int("staleTimeoutMs"));
    state.stream.start(requester.client.unwrap_or_default(), params, || random_id("rs_"), now);
    let status = state.stream.status();
    let mut started = status.clone();
    started["reason"] = "owner_started".into();
    service.broadcast(wire::broadcast("render.stream.stateChanged", "render.stream.started", &started));
    drop(state);
    service.expiry_wake.notify_one();
    Ok(status)
}

fn stop(service: &ControlService, requester: &Requester, args: &Args) -> Outcome {
    let reason = args.text("reason").unwrap_or("user_stop");
    let mut state = service.lock_state();
    let Some(owner) = state.stream.owner() else {
        return Err(Refusal::new(Code::STREAM_NOT_ACTIVE, "no render stream is active"));
    };
    if Some(owner) != requester.client {
        return Err(locked_refusal(
            "the render stream belongs to another client",
            &state.lease.view(service.now()),
        ));
    }
    let mut reply = state.stream.stop().unwrap_or_else(|| json!({}));
    service.publish_stream_stopped(reply.clone(), reason);
    reply["stopped"] = true.into();
    reply["reason"] = reason.into();
    Ok(reply)
}
