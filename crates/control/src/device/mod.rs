//! The device state: the renderer reads it and commands change it.

mod colour;
mod effects;
mod light_look;
mod palette;
mod preset;
mod transition;

pub(crate) use colour::Rgb;
pub(crate) use effects::EFFECTS;
pub(crate) use light_look::{Correction, LightLook};
pub(crate) use palette::PALETTES;
pub(crate) use preset::{MAX_PRESETS, Preset};
pub(crate) use transition::{KINDS as TRANSITIONS, Transition, TransitionSettings};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use light_look::Fade;

/// The playback state of the animation.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transport {
    /// Whether the animation plays.
    pub playing: bool,
    /// The position in the animation.
    pub position_ms: f64,
}

/// Persistent settings other than the look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    /// The display name of the device.
    pub device_name: String,
    /// Whether to start with the last look.
    pub restore_look: bool,
    /// The preset to start with otherwise.
    pub start_preset: Option<u8>,
    /// Maximum brightness, for a limited power supply.
    pub max_brightness: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self { device_name: "Tenure LED".into(), restore_look: true, start_preset: None, max_brightness: 255 }
    }
}

/// The device.
pub(crate) struct Device {
    /// Whether the light is on.
    pub power: bool,
    /// The current look.
    pub look: LightLook,
    /// The playback state.
    pub transport: Transport,
    /// The default transition.
    pub blend: TransitionSettings,
    /// Colour correction.
    pub correction: Correction,
    /// Persistent settings.
    pub settings: Settings,
    /// Named looks.
    pub presets: BTreeMap<u8, Preset>,
    fade: Option<Fade>,
    /// Effect time in seconds, scaled by its speed.
    phase: f64,
    /// Counts changes.
    revision: u64,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            power: true,
            look: LightLook::default(),
            transport: Transport { playing: true, position_ms: 0.0 },
            blend: TransitionSettings::default(),
            correction: Correction::default(),
            settings: Settings::default(),
            presets: BTreeMap::new(),
            fade: None,
            phase: 0.0,
            revision: 0,
        }
    }
}

/// The part of the device that is stored for the next process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeviceSnapshot {
    power: bool,
    look: LightLook,
    transport: Transport,
    blend: TransitionSettings,
    correction: Correction,
}

impl Device {
    /// Changes the look with a transition, by default the configured one.
    pub(crate) fn set_look(&mut self, look: LightLook, transition: Option<Transition>) {
        let from = self.scene();
        self.look = look;
        let transition = transition.unwrap_or(self.blend.transition());
        self.fade = (transition.ms > 0).then(|| Fade::new(from, transition));
        self.touch();
    }

    /// Records a change.
    pub(crate) fn touch(&mut self) {
        self.revision += 1;
    }

    /// The number of changes so far.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Advances the animation.
    pub(crate) fn advance(&mut self, ms: f64) {
        if self.transport.playing {
            self.transport.position_ms += ms;
            // One wave of most effects takes about four seconds at speed 10.
            self.phase += ms / 1_000.0 * f64::from(self.look.params.speed) / 10.0;
        }
        if self.fade.as_mut().is_some_and(|fade| fade.advance(ms)) {
            self.fade = None;
        }
    }

    /// Seeks in the animation.
    pub(crate) fn seek(&mut self, position_ms: f64) {
        self.transport.position_ms = position_ms;
        self.phase = position_ms / 1_000.0 * f64::from(self.look.params.speed) / 10.0;
        self.touch();
    }

    fn scene(&self) -> effects::Scene {
        // Effects repeat long before single precision runs out.
        self.look.scene((self.phase % 86_400.0) as f32)
    }

    /// The input of the renderer for one frame.
    pub(crate) fn frame_spec(&self) -> FrameSpec {
        FrameSpec {
            dark: !self.power,
            scene: self.scene(),
            fade: self.fade.clone(),
            level: self.look.params.brightness.min(self.settings.max_brightness),
            correction: self.correction,
        }
    }

    pub(crate) fn snapshot(&self) -> DeviceSnapshot {
        DeviceSnapshot {
            power: self.power,
            look: self.look.clone(),
            transport: self.transport,
            blend: self.blend,
            correction: self.correction,
        }
    }

    /// Restores the device of an earlier process, according to the settings.
    pub(crate) fn restore(
        &mut self,
        snapshot: Option<DeviceSnapshot>,
        settings: Settings,
        presets: BTreeMap<u8, Preset>,
    ) {
        self.settings = settings;
        self.presets = presets;
        if let Some(snapshot) = snapshot {
            self.correction = snapshot.correction;
            self.blend = snapshot.blend;
            if self.settings.restore_look {
                self.power = snapshot.power;
                self.look = snapshot.look.checked();
                self.transport = snapshot.transport;
                self.seek(snapshot.transport.position_ms);
            }
        }
        let start = self.settings.start_preset.filter(|_| !self.settings.restore_look);
        if let Some(preset) = start.and_then(|id| self.presets.get(&id)) {
            self.look = preset.look.clone();
        }
        self.touch();
    }
}

/// Everything needed to draw one frame without the lock.
#[derive(Clone)]
pub(crate) struct FrameSpec {
    dark: bool,
    scene: effects::Scene,
    fade: Option<Fade>,
    level: u8,
    correction: Correction,
}

impl FrameSpec {
    /// Draws the frame. `spare` is a buffer for the other half of a transition.
    pub(crate) fn draw(&self, out: &mut [Rgb], spare: &mut [Rgb]) {
        if self.dark {
            return out.fill(Rgb::BLACK);
        }
        effects::draw(&self.scene, out);
        if let Some(fade) = &self.fade {
            fade.blend_over(out, spare);
        }
        self.finish(out);
    }

    /// Applies brightness and colour correction, also to streamed frames.
    pub(crate) fn finish(&self, out: &mut [Rgb]) {
        if self.dark {
            return out.fill(Rgb::BLACK);
        }
        self.correction.apply(self.level, out);
    }
}
