//! Commands that change the device. Each takes effect whole or not at all, under the desk's lock.

use serde_json::{Map, Value, json};

use super::look::{blend, current, effect_name, known_effect, known_palette, no_preset, own, transport};
use super::{Command, Outcome, Run, change, find};
use crate::args::{Args, BYTE, Field, Kind, may, needs};
use crate::code::{Code, Refusal};
use crate::device::{Device, EFFECTS, Look, TRANSITIONS, Transition};

const SPEED: Kind = Kind::Int { least: 1, most: 50 };
const DURATION: Kind = Kind::Int { least: 0, most: 10_000 };
const EFFECT: &[Field] = &[needs("effectId", BYTE)];
const PALETTE: &[Field] = &[needs("paletteId", BYTE)];
const TRIGGER: &[Field] =
    &[needs("toEffect", BYTE), may("transitionType", Kind::Word(TRANSITIONS)), may("durationMs", DURATION)];
/// Commands in one batch.
const BATCH: usize = 10;

pub(super) const COMMANDS: &[Command] = &[
    change("setPower", "light or darkness", &[needs("on", Kind::Bool)], |device, args| {
        device.power = args.bool("on").unwrap_or(device.power);
        device.touch();
        Ok(json!({ "power": device.power }))
    }),
    change("setEffect", "shows another effect", EFFECT, |device, args| {
        effect(device, args.byte("effectId").unwrap_or_default())
    }),
    change("effects.setCurrent", "the same", EFFECT, |device, args| {
        effect(device, args.byte("effectId").unwrap_or_default())
    }),
    change("nextEffect", "shows the effect after this one", &[], |device, _| {
        let next = (usize::from(device.look.effect_id) + 1) % EFFECTS.len();
        effect(device, next as u8)
    }),
    change("prevEffect", "shows the effect before this one", &[], |device, _| {
        let last = (usize::from(device.look.effect_id) + EFFECTS.len() - 1) % EFFECTS.len();
        effect(device, last as u8)
    }),
    change(
        "effects.parameters.set",
        "an effect's own parameters",
        &[may("effectId", BYTE), needs("parameters", Kind::Object)],
        own_parameters,
    ),
    change("setBrightness", "how bright", &[needs("brightness", BYTE)], parameters),
    change("setSpeed", "how fast", &[needs("speed", SPEED)], parameters),
    change("setPalette", "with which colours", PALETTE, parameters),
    change("palettes.set", "the same", PALETTE, parameters),
    change(
        "parameters.set",
        "any of the knobs that every effect has",
        &[
            may("brightness", BYTE),
            may("speed", SPEED),
            may("paletteId", BYTE),
            may("intensity", BYTE),
            may("saturation", BYTE),
            may("complexity", BYTE),
            may("variation", BYTE),
        ],
        parameters,
    ),
    change("transition.trigger", "goes over to an effect", TRIGGER, trigger),
    change("transitions.trigger", "the same", TRIGGER, trigger),
    change(
        "transition.config",
        "how looks change",
        &[
            may("enabled", Kind::Bool),
            may("transitionType", Kind::Word(TRANSITIONS)),
            may("durationMs", DURATION),
        ],
        configure,
    ),
    change("effectPresets.load", "shows a preset", &[needs("id", BYTE)], load),
    change("show.play", "time passes, from the beginning", &[], |device, _| play(device, Some(0.0), true)),
    change("show.pause", "time stands still", &[], |device, _| play(device, None, false)),
    change("show.resume", "time passes again", &[], |device, _| play(device, None, true)),
    change("show.stop", "time stands still at the beginning", &[], |device, _| {
        play(device, Some(0.0), false)
    }),
    change(
        "show.seek",
        "another point in time",
        &[needs("positionMs", Kind::Int { least: 0, most: 86_400_000 })],
        |device, args| {
            let playing = device.transport.playing;
            play(device, args.int("positionMs").map(|ms| ms as f64), playing)
        },
    ),
    change(
        "colorCorrection.setConfig",
        "how colours become light; gamma in hundredths",
        &[
            may("gamma", Kind::Int { least: 50, most: 400 }),
            may("red", BYTE),
            may("green", BYTE),
            may("blue", BYTE),
        ],
        correct,
    ),
    change(
        "batch",
        "up to ten changes in one step",
        &[needs("operations", Kind::List { most: BATCH })],
        batch,
    ),
];

fn effect(device: &mut Device, id: u8) -> Outcome {
    known_effect(id)?;
    device.show(Look { effect_id: id, ..device.look.clone() }, None);
    Ok(current(device))
}

fn parameters(device: &mut Device, args: &Args) -> Outcome {
    if args.is_empty() {
        return Err(Refusal::new(Code::MISSING_FIELD, "at least one parameter is needed"));
    }
    let palette = args.byte("paletteId").unwrap_or(device.look.palette_id);
    known_palette(palette)?;
    let params = &mut device.look.params;
    for (name, place) in [
        ("brightness", &mut params.brightness),
        ("speed", &mut params.speed),
        ("intensity", &mut params.intensity),
        ("saturation", &mut params.saturation),
        ("complexity", &mut params.complexity),
        ("variation", &mut params.variation),
    ] {
        *place = args.byte(name).unwrap_or(*place);
    }
    match palette == device.look.palette_id {
        true => device.touch(),
        false => device.show(Look { palette_id: palette, ..device.look.clone() }, None),
    }
    let mut answer = json!(device.look.params);
    answer["paletteId"] = device.look.palette_id.into();
    Ok(answer)
}

/// Sets what can be set and names what cannot.
fn own_parameters(device: &mut Device, args: &Args) -> Outcome {
    let id = args.byte("effectId").unwrap_or(device.look.effect_id);
    known_effect(id)?;
    let known = EFFECTS[usize::from(id)].own;
    let mut values = device.look.own(id);
    let (mut queued, mut failed) = (Vec::new(), Vec::new());
    for (name, value) in args.object("parameters").into_iter().flatten() {
        let place = known.iter().position(|own| own.name == name);
        match (place, value.as_u64().and_then(|value| u8::try_from(value).ok())) {
            (Some(place), Some(value)) => {
                values[place] = value;
                queued.push(name.clone());
            }
            (Some(_), None) => failed.push(json!({ "name": name, "code": Code::OUT_OF_RANGE.word() })),
            (None, _) => failed
                .push(json!({ "name": crate::args::shown(name), "code": Code::INVALID_PARAMETER.word() })),
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
    known_effect(id).map_err(|refusal| refusal.field("toEffect"))?;
    let transition = Transition {
        kind: kind(args.text("transitionType")).unwrap_or(device.blend.kind),
        ms: args.int("durationMs").map_or(device.blend.duration_ms, |ms| ms as u32),
    };
    device.show(Look { effect_id: id, ..device.look.clone() }, Some(transition));
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
    let preset = device.presets.get(&id).cloned().ok_or_else(|| no_preset(id))?;
    device.show(preset.look, None);
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

/// Each operation stands for itself: those that fail are named, the others are done.
fn batch(device: &mut Device, args: &Args) -> Outcome {
    let results: Vec<Value> = args
        .list("operations")
        .iter()
        .map(|operation| match one(device, operation) {
            Ok((name, data)) => json!({ "type": name, "success": true, "data": data }),
            Err(refusal) => json!({ "success": false, "error": refusal.body() }),
        })
        .collect();
    let processed = results.iter().filter(|result| result["success"] == true).count();
    Ok(json!({ "processed": processed, "failed": results.len() - processed, "results": results }))
}

fn one(device: &mut Device, operation: &Value) -> Result<(&'static str, Value), Refusal> {
    let mut given: Map<String, Value> = operation
        .as_object()
        .cloned()
        .ok_or_else(|| Refusal::new(Code::INVALID_TYPE, "an operation is an object"))?;
    let name = given.remove("type").or_else(|| given.remove("action"));
    let name = name
        .as_ref()
        .and_then(Value::as_str)
        .ok_or_else(|| Refusal::new(Code::MISSING_FIELD, "an operation needs a type").field("type"))?;
    let command = find(name).filter(|command| command.name != "batch");
    let Some((command, Run::Change(run))) = command.map(|command| (command, &command.run)) else {
        return Err(
            Refusal::new(Code::INVALID_ACTION, "only changes of the device can be in a batch").field("type")
        );
    };
    let args = Args::check(command.fields, command.open, given)?;
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
    fn effects_go_round() {
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
    fn own_parameters_are_set_one_by_one() {
        let mut device = Device::default();
        let given = json!({ "effectId": 3, "parameters": { "cooling": 7, "spark": 300, "wind": 1 } });
        let answer = run(&mut device, "effects.parameters.set", given).unwrap();
        assert_eq!(answer["queued"], json!(["cooling"]));
        let failed: Vec<_> =
            answer["failed"].as_array().unwrap().iter().map(|one| one["code"].as_str().unwrap()).collect();
        assert_eq!(failed, ["OUT_OF_RANGE", "INVALID_PARAMETER"]);
        assert_eq!(answer["parameters"], json!({ "cooling": 7, "spark": 140 }));
    }

    #[test]
    fn a_batch_does_what_can_be_done_and_names_the_rest() {
        let mut device = Device::default();
        let answer = run(
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
        assert_eq!((&answer["processed"], &answer["failed"]), (&2.into(), &5.into()));
        assert_eq!((device.look.params.brightness, device.power), (9, false));
        let many = json!({ "operations": vec![json!({ "type": "nextEffect" }); 11] });
        assert_eq!(run(&mut device, "batch", many).unwrap_err().code, Code::OUT_OF_RANGE);
    }

    #[test]
    fn transport_stands_seeks_and_runs() {
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
