//! Commands whose effect is stored before the reply.

use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;

use super::read::preset_not_found;
use super::{Command, Outcome, action};
use crate::args::{Args, BYTE, Kind, optional, required};
use crate::class::Class;
use crate::code::{Code, Refusal};
use crate::device::{MAX_PRESETS, Preset};
use crate::service::{ControlService, Requester};

const NAME: Kind = Kind::Text { most: 64 };

pub(super) const COMMANDS: &[Command] = &[
    action(
        "effectPresets.saveCurrent",
        "saves the current look as a preset",
        &[required("name", NAME), optional("id", BYTE)],
        |service, requester, args| async move { save(&service, &requester, &args).await }.boxed(),
    ),
    action(
        "effectPresets.delete",
        "deletes a preset",
        &[required("id", BYTE)],
        |service, requester, args| async move { delete(&service, &requester, &args).await }.boxed(),
    ),
    action(
        "settings.set",
        "changes the persistent settings",
        &[
            optional("deviceName", NAME),
            optional("restoreLook", Kind::Bool),
            optional("startPreset", BYTE),
            optional("maxBrightness", BYTE),
        ],
        |service, requester, args| async move { settings(&service, &requester, &args).await }.boxed(),
    ),
];

/// Repeats the admission check: the wait for the store may have been long.
fn recheck(service: &ControlService, requester: &Requester, command: &str) -> Result<(), Refusal> {
    service.admit(&mut service.lock_state(), requester, Class::Mutate, command)
}

async fn save(service: &Arc<ControlService>, requester: &Requester, args: &Args) -> Outcome {
    let _lock = service.save_lock.lock().await;
    recheck(service, requester, "effectPresets.saveCurrent")?;
    let (id, preset) = {
        let state = service.lock_state();
        let presets = &state.device.presets;
        let id = match args.byte("id") {
            Some(id) => id,
            None => (0..=u8::MAX).find(|id| !presets.contains_key(id)).unwrap_or_default(),
        };
        if presets.len() >= MAX_PRESETS && !presets.contains_key(&id) {
            return Err(Refusal::new(
                Code::STORAGE_FULL,
                format!("all {MAX_PRESETS} presets are in use; delete one first"),
            ));
        }
        let name = args.text("name").unwrap_or_default().to_owned();
        (id, Preset { name, look: state.device.look.clone() })
    };
    service.device_store.save_preset(service.fence()?, id, Some(&preset)).await?;
    let reply = json!({ "id": id, "name": preset.name });
    let mut state = service.lock_state();
    state.device.presets.insert(id, preset);
    state.device.touch();
    service.notify_changed(&state);
    Ok(reply)
}

async fn delete(service: &Arc<ControlService>, requester: &Requester, args: &Args) -> Outcome {
    let _lock = service.save_lock.lock().await;
    recheck(service, requester, "effectPresets.delete")?;
    let id = args.byte("id").unwrap_or_default();
    if !service.lock_state().device.presets.contains_key(&id) {
        return Err(preset_not_found(id));
    }
    service.device_store.save_preset(service.fence()?, id, None).await?;
    let mut state = service.lock_state();
    state.device.presets.remove(&id);
    state.device.touch();
    service.notify_changed(&state);
    Ok(json!({ "id": id, "deleted": true }))
}

async fn settings(service: &Arc<ControlService>, requester: &Requester, args: &Args) -> Outcome {
    let _lock = service.save_lock.lock().await;
    recheck(service, requester, "settings.set")?;
    let mut settings = service.lock_state().device.settings.clone();
    settings.device_name = args.text("deviceName").map_or(settings.device_name, str::to_owned);
    settings.restore_look = args.bool("restoreLook").unwrap_or(settings.restore_look);
    settings.start_preset = args.byte("startPreset").or(settings.start_preset);
    settings.max_brightness = args.byte("maxBrightness").unwrap_or(settings.max_brightness);
    service.device_store.save_settings(service.fence()?, &settings).await?;
    let reply = json!(settings);
    let mut state = service.lock_state();
    state.device.settings = settings;
    state.device.touch();
    service.notify_changed(&state);
    Ok(reply)
}
