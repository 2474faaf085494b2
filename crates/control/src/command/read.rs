//! Commands that only read.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Command, Outcome, read};
use crate::args::{Args, BYTE, Kind, optional, required};
use crate::code::{Code, Refusal};
use crate::device::{Device, EFFECTS, PALETTES, TRANSITIONS};
use crate::service::{ControlService, ControlState};
use crate::stream;
use crate::wire::LeaseStatus;

/// Maximum preview frames per second.
pub(crate) const PREVIEW_FPS: i64 = 60;

pub(super) const COMMANDS: &[Command] = &[
    read("getStatus", "reads the complete status", &[], |service, state, _| {
        Ok(device_status(service, state))
    }),
    read("device.getStatus", "alias of `getStatus`", &[], |service, state, _| {
        Ok(device_status(service, state))
    }),
    read("device.status", "alias of `getStatus`", &[], |service, state, _| Ok(device_status(service, state))),
    read("device.getInfo", "reads information about the device", &[], |service, state, _| {
        Ok(info(service, state))
    }),
    read("device.getState", "reads the state of the device", &[], |_, state, _| {
        Ok(device_state(&state.device))
    }),
    read("sys.capabilities", "reads the capabilities", &[], |service, _, _| Ok(capabilities(service))),
    read("effects.list", "lists the effects", &[], |_, _, _| Ok(effects())),
    read("effects.getCurrent", "reads the current effect", &[], |_, state, _| Ok(current(&state.device))),
    read(
        "effects.parameters.get",
        "reads the parameters of one effect",
        &[optional("effectId", BYTE)],
        |_, state, args| parameters(&state.device, args),
    ),
    read("palettes.list", "lists the palettes", &[], |_, _, _| Ok(palettes())),
    read("palettes.get", "reads a palette", &[required("paletteId", BYTE)], |_, _, args| palette(args)),
    read("parameters.get", "reads the parameters common to all effects", &[], |_, state, _| {
        Ok(json!(state.device.look.params))
    }),
    read("effectPresets.list", "lists the presets", &[], |_, state, _| Ok(presets(&state.device))),
    read("effectPresets.get", "reads a preset", &[required("id", BYTE)], |_, state, args| {
        preset(&state.device, args)
    }),
    read("transition.getConfig", "reads the default transition", &[], |_, state, _| Ok(blend(&state.device))),
    read("transitions.list", "lists the transitions", &[], |_, _, _| {
        Ok(json!({ "transitions": TRANSITIONS }))
    }),
    read("show.status", "reads the state of the animation", &[], |_, state, _| Ok(transport(&state.device))),
    read("settings.get", "reads the persistent settings", &[], |_, state, _| {
        Ok(json!(state.device.settings))
    }),
    read("colorCorrection.getConfig", "reads the colour correction", &[], |_, state, _| {
        Ok(json!(state.device.correction))
    }),
    read(
        "ledStream.subscribe",
        "subscribes this connection to LED frames",
        &[optional("fps", Kind::Int { least: 1, most: PREVIEW_FPS })],
        |service, _, args| {
            Ok(
                json!({ "subscribed": true, "fps": args.int("fps").unwrap_or(30), "ledCount": service.options.leds, "headerBytes": 6 }),
            )
        },
    ),
    read("ledStream.unsubscribe", "shutdown the subscription to LED frames", &[], |_, _, _| {
        Ok(json!({ "subscribed": false }))
    }),
];

/// The state of the device.
pub(crate) fn device_state(device: &Device) -> Value {
    json!({
        "power": device.power, "effectId": device.look.effect_id, "effectName": effect_name(device.look.effect_id),
        "paletteId": device.look.palette_id, "parameters": device.look.params, "transport": transport(device),
        "transition": blend(device), "colorCorrection": device.correction, "presets": presets(device)["presets"],
        "revision": device.revision(),
    })
}

/// The complete status, without the token.
pub(crate) fn device_status(service: &ControlService, state: &ControlState) -> Value {
    let counters = state.stream.counters();
    json!({
        "uptime": service.uptime.elapsed().as_secs(),
        "freeHeap": free_memory(),
        "fps": service.render_stats.fps.load(Ordering::Relaxed),
        "cpuPercent": f64::from(service.render_stats.busy.load(Ordering::Relaxed)) / 10.0,
        "network": { "connected": true, "ddpOutputs": service.options.ddp.len() },
        "wsClients": service.clients.load(Ordering::Relaxed),
        "controlLease": LeaseStatus::from(state.lease.view(service.now())),
        "controlCounters": state.blocked.json(),
        "renderStream": state.stream.status(),
        "renderCounters": {
            "framesRx": counters.rx, "framesRendered": counters.rendered, "framesDroppedMailbox": counters.dropped,
            "framesInvalid": counters.invalid, "framesBlockedLease": counters.blocked, "staleTimeouts": counters.stale,
        },
        "state": device_state(&state.device),
    })
}

/// Available memory in bytes; zero if unknown.
fn free_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1_024
}

fn info(service: &ControlService, state: &ControlState) -> Value {
    json!({
        "name": state.device.settings.device_name, "ledCount": service.options.leds, "targetFps": service.options.fps,
        "version": env!("CARGO_PKG_VERSION"), "effects": EFFECTS.len(), "palettes": PALETTES.len(),
    })
}

fn capabilities(service: &ControlService) -> Value {
    json!({
        "renderStreamBinaryV1": true, "externalRenderMode": true, "mailboxDepth": stream::MAILBOX_DEPTH,
        "maxPayloadBytes": stream::PAYLOAD, "frameContractVersion": 1, "controlLease": true,
        "takeoverAllowed": false, "scopes": ["global"], "ledCount": service.options.leds,
        "ttlMs": service.options.ttl_ms, "heartbeatIntervalMs": service.options.heartbeat_ms,
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

/// The parameters of one effect, by name.
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
    check_effect(id)?;
    Ok(json!({ "effectId": id, "name": effect_name(id), "parameters": own(device, id) }))
}

/// Checks the id of an effect.
pub(super) fn check_effect(id: u8) -> Result<(), Refusal> {
    if usize::from(id) < EFFECTS.len() {
        return Ok(());
    }
    Err(Refusal::new(Code::OUT_OF_RANGE, format!("effect ids are 0 to {}", EFFECTS.len() - 1))
        .field("effectId"))
}

/// Checks the id of a palette.
pub(super) fn check_palette(id: u8) -> Result<(), Refusal> {
    if usize::from(id) < PALETTES.len() {
        return Ok(());
    }
    Err(Refusal::new(Code::OUT_OF_RANGE, format!("palette ids are 0 to {}", PALETTES.len() - 1))
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
    check_palette(id)?;
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
        None => Err(preset_not_found(id)),
    }
}

pub(super) fn preset_not_found(id: u8) -> Refusal {
    Refusal::new(Code::NOT_FOUND, format!("preset {id} not found")).field("id")
}

pub(super) fn transport(device: &Device) -> Value {
    json!({ "playing": device.transport.playing, "positionMs": device.transport.position_ms as u64 })
}

pub(super) fn blend(device: &Device) -> Value {
    let kind = TRANSITIONS.get(usize::from(device.blend.kind)).copied().unwrap_or("fade");
    json!({ "enabled": device.blend.enabled, "transitionType": kind, "durationMs": device.blend.duration_ms })
}
