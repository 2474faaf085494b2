//! Commands that change the device. Each takes effect completely or not at all, under the state's lock.

use serde_json::{Map, Value, json};

use super::read::{
    blend, check_effect, check_palette, current, effect_name, own, preset_not_found, transport,
};
use super::{Command, Outcome, Run, change, find};
use crate::args::{Args, BYTE, Field, Kind, optional, required};
use crate::code::{Code, Refusal};
use crate::device::{Device, EFFECTS, LightLook, TRANSITIONS, Transition};

const SPEED: Kind = Kind::Int { least: 1, most: 50 };
const DURATION: Kind = Kind::Int { least: 0, most: 10_000 };
const EFFECT: &[Field] = &[required("effectId", BYTE)];
const PALETTE: &[Field] = &[required("paletteId", BYTE)];
const TRIGGER: &[Field] = &[
    required("toEffect", BYTE),
    optional("transitionType", Kind::Word(TRANSITIONS)),
    optional("durationMs", DURATION),
];
/// Maximum commands in one batch.
const MAX_BATCH: usize = 10;

pub(super) const COMMANDS: &[Command] = &[
    change("setPower", "turns the light on or off", &[required("on", Kind::Bool)], |device, args| {
        device.power = args.bool("on").unwrap_or(device.power);
        device.touch();
        Ok(json!({ "power": device.power }))
    }),
    change("setEffect", "selects an effect", EFFECT, |device, args| {
        effect(device, args.byte("effectId").unwrap_or_default())
    }),
    change("effects.setCurrent", "alias of `setEffect`", EFFECT, |device, args| {
        effect(device, args.byte("effectId").unwrap_or_default())
    }),
    change("nextEffect", "selects the next effect", &[], |device, _| {
        let next = (usize::from(device.look.effect_id) + 1) % EFFECTS.len();
        effect(device, next as u8)
    }),
    change("prevEffect", "selects the previous effect", &[], |device, _| {
        let last = (usize::from(device.look.effect_id) + EFFECTS.len() - 1) % EFFECTS.len();
        effect(device, last as u8)
    }),
    change(
        "effects.parameters.set",
        "sets parameters of one effect",
        &[optional("effectId", BYTE), required("parameters", Kind::Object)],
        own_parameters,
    ),
    change("setBrightness", "sets the brightness", &[required("brightness", BYTE)], parameters),
    change("setSpeed", "sets the speed", &[required("speed", SPEED)], parameters),
    change("setPalette", "selects a palette", PALETTE, parameters),
    change("palettes.set", "alias of `setPalette`", PALETTE, parameters),
    change(
        "parameters.set",
        "sets parameters common to all effects",
        &[
            optional("brightness", BYTE),
            optional("speed", SPEED),
            optional("paletteId", BYTE),
            optional("intensity", BYTE),
            optional("saturation", BYTE),
            optional("complexity", BYTE),
            optional("variation", BYTE),
        ],
        parameters,
    ),
    change("transition.trigger", "selects an effect with a transition", TRIGGER, trigger),
    change("transitions.trigger", "alias of `transition.trigger`", TRIGGER, trigger),
    change(
        "transition.config",
        "sets the default transition",
        &[
            optional("enabled", Kind::Bool),
            optional("transitionType", Kind::Word(TRANSITIONS)),
            optional("durationMs", DURATION),
        ],
        configure,
    ),
    change("effectPresets.load", "loads a preset", &[required("id", BYTE)], load),
    change("show.play", "plays the animation from the start", &[], |device, _| play(device, Some(0.0), true)),
    change("show.pause", "pauses the animation", &[], |device, _| play(device, None, false)),
    change("show.resume", "resumes the animation", &[], |device, _| play(device, None, true)),
    change("show.stop", "stops the animation at its start", &[], |device, _| play(device, Some(0.0), false)),
    change(
        "show.seek",
        "seeks in the animation",
        &[required("positionMs", Kind::Int { least: 0, most: 86_400_000 })],
        |device, args| {
            let playing = device.transport.playing;
            play(device, args.int("positionMs").map(|ms| ms as f64), playing)
        },
    ),
    change(
        "colorCorrection.setConfig",
        "sets the colour correction; gamma in hundredths",
        &[
            optional("gamma", Kind::Int { least: 50, most: 400 }),
            optional("red", BYTE),
            optional("green", BYTE),
            optional("blue", BYTE),
        ],
        correct,
    ),
    change(
        "batch",
        "runs up to ten changes",
        &[required("operations", Kind::List { most: MAX_BATCH })],
        batch,
    ),
];

fn effect(device: &mut Device, id: u8) -> Outcome {
    check_effect(id)?;
    device.set_look(LightLook { effect_id: id, ..device.look.clone() }, None);
    Ok(current(device))
}

fn parameters(device: &mut Device, args: &Args) -> Outcome {
    if args.is_empty() {
        return Err(Refusal::new(Code::MISSING_FIELD, "at least one parameter is required"));
    }
    let palette = args.byte("paletteId").unwrap_or(device.look.palette_id);
    check_palette(palette)?;
    let params = &mut device.look.params;
    for (name, value) in [
        ("brightness", &mut params.brightness),
        ("speed", &mut params.speed),
        ("intensity", &mut params.intensity),
        ("saturation", &mut params.saturation),
        ("complexity", &mut params.complexity),
        ("variation", &mut params.variation),
    ] {
        *value = args.byte(name).unwrap_or(*value);
    }
    match palette == device.look.palette_id {
        true => device.touch(),
        false => device.set_look(LightLook { palette_id: palette, ..device.look.clone() }, None),
    }
    let mut reply = json!(device.look.params);
    reply["paletteId"] = device.look.palette_id.into();
    Ok(reply)
}

/// Sets the valid parameters and lists the invalid ones.
fn own_parameters(device: &mut Device, args: &Args) -> Outcome {
    let id = args.byte("effectId").unwrap_or(device.look.effect_id);
    check_effect(id)?;
    let known = EFFECTS[usize::from(id)].own;
    let mut values = device.look.own(id);
    let (mut queued, mut failed) = (Vec::new(), Vec::new());
    for (name, value) in args.object("parameters").into_iter().flatten() {
        let index = known.iter().position(|own| own.name == name);
        match (index, value.as_u64().and_then(|value| u8::try_from(value).ok())) {
            (Some(index), Some(value)) => {
                values[index] = value;
                queued.push(name.clone());
            }
            (Some(_), None) => failed.push(json!({ "name": name, "code": Code::OUT_OF_RANGE.as_str() })),
            (None, _) => failed.push(
                json!({ "name": crate::args::truncate_name(name), "code": Code::INVALID_PARAMETER.as_str() }),
            ),
        }
    }
    if !queued.is_empty() {
        device.look.own.insert(id, values);
        device.touch();
    }
    Ok(json!({ "effectId": id, "queued": queued, "failed": failed, "parameters": own(device, id) }))
}

fn kind(word: Option<&str>) -> Option<u8> {
    word.and_then(|word| TRANSITIONS.iter().position(|kind| *kind == word)).map(|kind| kind as u8)
}

fn trigger(device: &mut Device, args: &Args) -> Outcome {
    let id = args.byte("toEffect").unwrap_or_default();
    check_effect(id).map_err(|refusal| refusal.field("toEffect"))?;
    let transition = Transition {
        kind: kind(args.text("transitionType")).unwrap_or(device.blend.kind),
        ms: args.int("durationMs").map_or(device.blend.duration_ms, |ms| ms as u32),
    };
    device.set_look(LightLook { effect_id: id, ..device.look.clone() }, Some(transition));
    let word = TRANSITIONS[usize::from(transition.kind)];
    Ok(
        json!({ "toEffect": id, "name": effect_name(id), "transitionType": word, "durationMs": transition.ms }),
    )
}

fn configure(device: &mut Device, args: &Args) -> Outcome {
    device.blend.enabled = args.bool("enabled").unwrap_or(device.blend.enabled);
    device.blend.kind = kind(args.text("transitionType")).unwrap_or(device.blend.kind);
    device.blend.duration_ms = args.int("durationMs").map_or(device.blend.duration_ms, |ms| ms as u32);
    device.touch();
    Ok(blend(device))
}

fn load(device: &mut Device, args: &Args) -> Outcome {
    let id = args.byte("id").unwrap_or_default();
    let preset = device.presets.get(&id).cloned().ok_or_else(|| preset_not_found(id))?;
    device.set_look(preset.look, None);
    Ok(json!({ "id": id, "name": preset.name, "effectId": device.look.effect_id }))
}

fn play(device: &mut Device, position: Option<f64>, playing: bool) -> Outcome {
    device.transport.playing = playing;
    match position {
        Some(position) => device.seek(position),
        None => device.touch(),
    }
    Ok(transport(device))
}

fn correct(device: &mut Device, args: &Args) -> Outcome {
    let correction = &mut device.correction;
    correction.gamma = args.int("gamma").map_or(correction.gamma, |gamma| gamma as u16);
    correction.red = args.byte("red").unwrap_or(correction.red);
    correction.green = args.byte("green").unwrap_or(correction.green);
    correction.blue = args.byte("blue").unwrap_or(correction.blue);
    device.touch();
    Ok(json!(device.correction))
}

/// Operations are independent: failures are listed, the others take effect.
fn batch(device: &mut Device, args: &Args) -> Outcome {
    let results: Vec<Value> = args
        .list("operations")
        .iter()
        .map(|operation| match run_operation(device, operation) {
            Ok((name, data)) => json!({ "type": name, "success": true, "data": data }),
            Err(refusal) => json!({ "success": false, "error": refusal.body() }),
        })
        .collect();
    let processed = results.iter().filter(|result| result["success"] == true).count();
    Ok(json!({ "processed": processed, "failed": results.len() - processed, "results": results }))
}

fn run_operation(device: &mut Device, operation: &Value) -> Result<(&'static str, Value), Refusal> {
    let mut given: Map<String, Value> = operation
        .as_object()
        .cloned()
        .ok_or_else(|| Refusal::new(Code::INVALID_TYPE, "an operation must be an object"))?;
    let name = given.remove("type").or_else(|| given.remove("action"));
    let name = name
        .as_ref()
        .and_then(Value::as_str)
        .ok_or_else(|| Refusal::new(Code::MISSING_FIELD, "an operation requires a `type`").field("type"))?;
    let command = find(name).filter(|command| command.name != "batch");
    let Some((command, Run::Change(run))) = command.map(|command| (command, &command.run)) else {
        return Err(Refusal::new(
            Code::INVALID_ACTION,
            "a batch may contain only commands that change the device",
        )
        .field("type"));
    };
    let args = Args::check(command.fields, command.allow_unknown, given)?;
    run(device, &args).map(|data| (command.name, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(device: &mut Device, name: &str, given: Value) -> Outcome {
        let Some(Run::Change(run)) = find(name).map(|command| &command.run) else { panic!("{name}") };
        let args = Args::check(find(name).unwrap().fields, false, given.as_object().unwrap().clone())?;
        run(device, &args)
    }

    #[test]
    fn next_and_previous_wrap_around() {
        let mut device = Device::default();
        run(&mut device, "setEffect", json!({ "effectId": EFFECTS.len() - 1 })).unwrap();
        assert_eq!(run(&mut device, "nextEffect", json!({})).unwrap()["effectId"], 0);
        assert_eq!(run(&mut device, "prevEffect", json!({})).unwrap()["effectId"], EFFECTS.len() - 1);
        let refusal = run(&mut device, "setEffect", json!({ "effectId": 200 })).unwrap_err();
        assert_eq!((refusal.code, refusal.field.as_deref()), (Code::OUT_OF_RANGE, Some("effectId")));
    }

    #[test]
    fn a_refused_change_changes_nothing() {
        let mut device = Device::default();
        let (before, revision) = (device.look.clone(), device.revision());
        for (name, given) in [
            ("parameters.set", json!({ "brightness": 1, "paletteId": 250 })),
            ("parameters.set", json!({ "brightness": 1, "speed": 51 })),
            ("parameters.set", json!({ "brightness": 1, "tempo": 3 })),
            ("parameters.set", json!({})),
            ("transition.trigger", json!({ "toEffect": 99 })),
            ("effectPresets.load", json!({ "id": 3 })),
            ("setSpeed", json!({ "speed": 0 })),
        ] {
            assert!(run(&mut device, name, given).is_err(), "{name}");
        }
        assert_eq!((&device.look, device.revision()), (&before, revision));
    }

    #[test]
    fn effect_parameters_are_set_independently() {
        let mut device = Device::default();
        let given = json!({ "effectId": 3, "parameters": { "cooling": 7, "spark": 300, "wind": 1 } });
        let reply = run(&mut device, "effects.parameters.set", given).unwrap();
        assert_eq!(reply["queued"], json!(["cooling"]));
        let failed: Vec<_> =
            reply["failed"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
        assert_eq!(failed, ["OUT_OF_RANGE", "INVALID_PARAMETER"]);
        assert_eq!(reply["parameters"], json!({ "cooling": 7, "spark": 140 }));
    }

    #[test]
    fn a_batch_runs_valid_operations_and_lists_the_others() {
        let mut device = Device::default();
        let reply = run(
            &mut device,
            "batch",
            json!({ "operations": [
            { "type": "setBrightness", "brightness": 9 },
            { "type": "setSpeed", "speed": 99 },
            { "action": "setPower", "on": false },
            { "type": "batch", "operations": [] },
            { "type": "control.acquire" },
            { "type": "settings.set", "deviceName": "x" },
            7,
        ] }),
        )
        .unwrap();
        assert_eq!((&reply["processed"], &reply["failed"]), (&2.into(), &5.into()));
        assert_eq!((device.look.params.brightness, device.power), (9, false));
        let many = json!({ "operations": vec![json!({ "type": "nextEffect" }); 11] });
        assert_eq!(run(&mut device, "batch", many).unwrap_err().code, Code::OUT_OF_RANGE);
    }

    #[test]
    fn the_transport_pauses_seeks_and_resumes() {
        let mut device = Device::default();
        device.advance(500.0);
        run(&mut device, "show.pause", json!({})).unwrap();
        device.advance(500.0);
        assert_eq!(device.transport.position_ms, 500.0);
        run(&mut device, "show.seek", json!({ "positionMs": 9_000 })).unwrap();
        run(&mut device, "show.resume", json!({})).unwrap();
        device.advance(1.0);
        assert_eq!(device.transport.position_ms, 9_001.0);
        run(&mut device, "show.stop", json!({})).unwrap();
        device.advance(5.0);
        assert_eq!((device.transport.playing, device.transport.position_ms), (false, 0.0));
    }
}
