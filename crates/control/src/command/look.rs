//! Commands that look.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Command, Outcome, look};
use crate::args::{Args, BYTE, Kind, may, needs};
use crate::code::{Code, Refusal};
use crate::desk::{Desk, Inner};
use crate::device::{Device, EFFECTS, PALETTES, TRANSITIONS};
use crate::stream;
use crate::wire::Status;

/// Frames of the preview per second and subscriber, at most.
pub(crate) const PREVIEW_FPS: i64 = 60;

pub(super) const COMMANDS: &[Command] = &[
    look("getStatus", "the device and everything about it", &[], |inner, desk, _| Ok(status(inner, desk))),
    look("device.getStatus", "the same", &[], |inner, desk, _| Ok(status(inner, desk))),
    look("device.status", "the same", &[], |inner, desk, _| Ok(status(inner, desk))),
    look("device.getInfo", "what the device is", &[], |inner, desk, _| Ok(info(inner, desk))),
    look("device.getState", "what the device shows", &[], |_, desk, _| Ok(state(&desk.device))),
    look("sys.capabilities", "what the device can do", &[], |inner, _, _| Ok(capabilities(inner))),
    look("effects.list", "all effects", &[], |_, _, _| Ok(effects())),
    look("effects.getCurrent", "the effect that is shown", &[], |_, desk, _| Ok(current(&desk.device))),
    look(
        "effects.parameters.get",
        "an effect's own parameters",
        &[may("effectId", BYTE)],
        |_, desk, args| parameters(&desk.device, args),
    ),
    look("palettes.list", "all palettes", &[], |_, _, _| Ok(palettes())),
    look("palettes.get", "one palette", &[needs("paletteId", BYTE)], |_, _, args| palette(args)),
    look("parameters.get", "the knobs that every effect has", &[], |_, desk, _| {
        Ok(json!(desk.device.look.params))
    }),
    look("effectPresets.list", "all presets", &[], |_, desk, _| Ok(presets(&desk.device))),
    look("effectPresets.get", "one preset", &[needs("id", BYTE)], |_, desk, args| preset(&desk.device, args)),
    look("transition.getConfig", "how looks change", &[], |_, desk, _| Ok(blend(&desk.device))),
    look("transitions.list", "all kinds of transitions", &[], |_, _, _| {
        Ok(json!({ "transitions": TRANSITIONS }))
    }),
    look("show.status", "whether time passes, and where it is", &[], |_, desk, _| {
        Ok(transport(&desk.device))
    }),
    look("settings.get", "what stays", &[], |_, desk, _| Ok(json!(desk.device.settings))),
    look("colorCorrection.getConfig", "how colours become light", &[], |_, desk, _| {
        Ok(json!(desk.device.correction))
    }),
    look(
        "ledStream.subscribe",
        "pictures of the strip on this socket",
        &[may("fps", Kind::Int { least: 1, most: PREVIEW_FPS })],
        |inner, _, args| {
            Ok(
                json!({ "subscribed": true, "fps": args.int("fps").unwrap_or(30), "ledCount": inner.options.leds, "headerBytes": 6 }),
            )
        },
    ),
    look("ledStream.unsubscribe", "no more pictures", &[], |_, _, _| Ok(json!({ "subscribed": false }))),
];

/// What the device shows.
pub(crate) fn state(device: &Device) -> Value {
    json!({
        "power": device.power, "effectId": device.look.effect_id, "effectName": effect_name(device.look.effect_id),
        "paletteId": device.look.palette_id, "parameters": device.look.params, "transport": transport(device),
        "transition": blend(device), "colorCorrection": device.correction, "presets": presets(device)["presets"],
        "revision": device.revision(),
    })
}

/// The device and everything about it; no token anywhere.
pub(crate) fn status(inner: &Inner, desk: &Desk) -> Value {
    let counters = desk.stream.counters();
    json!({
        "uptime": inner.uptime.passed().as_secs(),
        "freeHeap": free_memory(),
        "fps": inner.pace.fps.load(Ordering::Relaxed),
        "cpuPercent": f64::from(inner.pace.busy.load(Ordering::Relaxed)) / 10.0,
        "network": { "connected": true, "ddpOutputs": inner.options.ddp.len() },
        "wsClients": inner.clients.load(Ordering::Relaxed),
        "controlLease": Status::from(desk.lease.view(inner.now())),
        "controlCounters": desk.blocked.json(),
        "renderStream": desk.stream.status(),
        "renderCounters": {
            "framesRx": counters.rx, "framesRendered": counters.rendered, "framesDroppedMailbox": counters.dropped,
            "framesInvalid": counters.invalid, "framesBlockedLease": counters.blocked, "staleTimeouts": counters.stale,
        },
        "state": state(&desk.device),
    })
}

/// What the machine has left, in bytes; zero where it does not say.
fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1_024
}

fn info(inner: &Inner, desk: &Desk) -> Value {
    json!({
        "name": desk.device.settings.device_name, "ledCount": inner.options.leds, "targetFps": inner.options.fps,
        "version": env!("CARGO_PKG_VERSION"), "effects": EFFECTS.len(), "palettes": PALETTES.len(),
    })
}

fn capabilities(inner: &Inner) -> Value {
    json!({
        "renderStreamBinaryV1": true, "externalRenderMode": true, "mailboxDepth": stream::MAILBOX,
        "maxPayloadBytes": stream::PAYLOAD, "frameContractVersion": 1, "controlLease": true,
        "takeoverAllowed": false, "scopes": ["global"], "ledCount": inner.options.leds,
        "ttlMs": inner.options.ttl_ms, "heartbeatIntervalMs": inner.options.heartbeat_ms,
        "ota": false, "apiKeys": false, "audio": false, "zones": false,
    })
}

fn effects() -> Value {
    let effects = EFFECTS.iter().enumerate().map(|(id, effect)| {
        let own: Vec<_> = effect
            .own
            .iter()
            .map(|own| json!({ "name": own.name, "default": own.default, "min": 0, "max": 255 }))
            .collect();
        json!({ "id": id, "name": effect.name, "about": effect.about, "parameters": own })
    });
    json!({ "effects": effects.collect::<Vec<_>>(), "total": EFFECTS.len() })
}

pub(super) fn effect_name(id: u8) -> &'static str {
    EFFECTS.get(usize::from(id)).map_or("", |effect| effect.name)
}

pub(super) fn current(device: &Device) -> Value {
    let id = device.look.effect_id;
    json!({ "effectId": id, "name": effect_name(id), "parameters": own(device, id) })
}

/// An effect's own parameters by name.
pub(super) fn own(device: &Device, effect: u8) -> Value {
    let values = device.look.own(effect);
    let names = EFFECTS.get(usize::from(effect)).map_or(&[][..], |effect| effect.own);
    names
        .iter()
        .zip(values)
        .map(|(own, value)| (own.name.to_owned(), value.into()))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn parameters(device: &Device, args: &Args) -> Outcome {
    let id = args.byte("effectId").unwrap_or(device.look.effect_id);
    known_effect(id)?;
    Ok(json!({ "effectId": id, "name": effect_name(id), "parameters": own(device, id) }))
}

/// Refuses an id that is no effect.
pub(super) fn known_effect(id: u8) -> Result<(), Refusal> {
    if usize::from(id) < EFFECTS.len() {
        return Ok(());
    }
    Err(Refusal::new(Code::OUT_OF_RANGE, format!("effects go from 0 to {}", EFFECTS.len() - 1))
        .field("effectId"))
}

/// Refuses an id that is no palette.
pub(super) fn known_palette(id: u8) -> Result<(), Refusal> {
    if usize::from(id) < PALETTES.len() {
        return Ok(());
    }
    Err(Refusal::new(Code::OUT_OF_RANGE, format!("palettes go from 0 to {}", PALETTES.len() - 1))
        .field("paletteId"))
}

fn palettes() -> Value {
    let palettes = PALETTES
        .iter()
        .enumerate()
        .map(|(id, palette)| json!({ "id": id, "name": palette.name, "colors": palette.colours() }));
    json!({ "palettes": palettes.collect::<Vec<_>>(), "total": PALETTES.len() })
}

fn palette(args: &Args) -> Outcome {
    let id = args.byte("paletteId").unwrap_or_default();
    known_palette(id)?;
    let palette = &PALETTES[usize::from(id)];
    Ok(json!({ "id": id, "name": palette.name, "colors": palette.colours() }))
}

fn presets(device: &Device) -> Value {
    let presets = device
        .presets
        .iter()
        .map(|(id, preset)| json!({ "id": id, "name": preset.name, "effectId": preset.look.effect_id }));
    json!({ "presets": presets.collect::<Vec<_>>() })
}

fn preset(device: &Device, args: &Args) -> Outcome {
    let id = args.byte("id").unwrap_or_default();
    match device.presets.get(&id) {
        Some(preset) => Ok(json!({ "id": id, "name": preset.name, "look": preset.look })),
        None => Err(no_preset(id)),
    }
}

pub(super) fn no_preset(id: u8) -> Refusal {
    Refusal::new(Code::NOT_FOUND, format!("there is no preset {id}")).field("id")
}

pub(super) fn transport(device: &Device) -> Value {
    json!({ "playing": device.transport.playing, "positionMs": device.transport.position_ms as u64 })
}

pub(super) fn blend(device: &Device) -> Value {
    let kind = TRANSITIONS.get(usize::from(device.blend.kind)).copied().unwrap_or("fade");
    json!({ "enabled": device.blend.enabled, "transitionType": kind, "durationMs": device.blend.duration_ms })
}
