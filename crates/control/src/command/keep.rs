//! Commands whose effect is stored before they are answered.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;

use super::look::no_preset;
use super::{Command, Outcome, act};
use crate::args::{Args, BYTE, Kind, may, needs};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::desk::{Hand, Inner};
use crate::device::{MOST_PRESETS, Preset};

const NAME: Kind = Kind::Text { most: 64 };

pub(super) const COMMANDS: &[Command] = &[
    act(
        "effectPresets.saveCurrent",
        "stores what is shown as a preset",
        &[needs("name", NAME), may("id", BYTE)],
        |inner, hand, args| async move { save(&inner, &hand, &args).await }.boxed(),
    ),
    act("effectPresets.delete", "forgets a preset", &[needs("id", BYTE)], |inner, hand, args| {
        async move { delete(&inner, &hand, &args).await }.boxed()
    }),
    act(
        "settings.set",
        "what stays",
        &[
            may("deviceName", NAME),
            may("restoreLook", Kind::Bool),
            may("startPreset", BYTE),
            may("maxBrightness", BYTE),
        ],
        |inner, hand, args| async move { settings(&inner, &hand, &args).await }.boxed(),
    ),
];

/// The check that stood at the command's door, again: the wait for the store may have been long.
fn still(inner: &Inner, hand: &Hand, command: &str) -> Result<(), Refusal> {
    inner.admit(&mut inner.look(), hand, Class::Mutate, command)
}

async fn save(inner: &Arc<Inner>, hand: &Hand, args: &Args) -> Outcome {
    let _turn = inner.saving.lock().await;
    still(inner, hand, "effectPresets.saveCurrent")?;
    let (id, preset) = {
        let desk = inner.look();
        let presets = &desk.device.presets;
        let id = match args.byte("id") {
            Some(id) => id,
            None => (0..=u8::MAX).find(|id| !presets.contains_key(id)).unwrap_or_default(),
        };
        if presets.len() >= MOST_PRESETS && !presets.contains_key(&id) {
            return Err(Refusal::new(
                Code::STORAGE_FULL,
                format!("there are {MOST_PRESETS} presets; delete one first"),
            ));
        }
        let name = args.text("name").unwrap_or_default().to_owned();
        (id, Preset { name, look: desk.device.look.clone() })
    };
    inner.vault.preset(inner.fence()?, id, Some(&preset)).await?;
    let answer = json!({ "id": id, "name": preset.name });
    let mut desk = inner.look();
    desk.device.presets.insert(id, preset);
    desk.device.touch();
    inner.changed(&desk);
    Ok(answer)
}

async fn delete(inner: &Arc<Inner>, hand: &Hand, args: &Args) -> Outcome {
    let _turn = inner.saving.lock().await;
    still(inner, hand, "effectPresets.delete")?;
    let id = args.byte("id").unwrap_or_default();
    if !inner.look().device.presets.contains_key(&id) {
        return Err(no_preset(id));
    }
    inner.vault.preset(inner.fence()?, id, None).await?;
    let mut desk = inner.look();
    desk.device.presets.remove(&id);
    desk.device.touch();
    inner.changed(&desk);
    Ok(json!({ "id": id, "deleted": true }))
}

async fn settings(inner: &Arc<Inner>, hand: &Hand, args: &Args) -> Outcome {
    let _turn = inner.saving.lock().await;
    still(inner, hand, "settings.set")?;
    let mut settings = inner.look().device.settings.clone();
    settings.device_name = args.text("deviceName").map_or(settings.device_name, str::to_owned);
    settings.restore_look = args.bool("restoreLook").unwrap_or(settings.restore_look);
    settings.start_preset = args.byte("startPreset").or(settings.start_preset);
    settings.max_brightness = args.byte("maxBrightness").unwrap_or(settings.max_brightness);
    inner.vault.settings(inner.fence()?, &settings).await?;
    let answer = json!(settings);
    let mut desk = inner.look();
    desk.device.settings = settings;
    desk.device.touch();
    inner.changed(&desk);
    Ok(answer)
}
