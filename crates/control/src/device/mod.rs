//! The device: what it shows and how it is set. Plain state; the renderer reads it, commands change it.

mod colour;
mod effects;
mod palette;
mod preset;
mod scene;
mod transition;

pub(crate) use colour::Rgb;
pub(crate) use effects::EFFECTS;
pub(crate) use palette::PALETTES;
pub(crate) use preset::{MOST_PRESETS, Preset};
pub(crate) use scene::{Correction, Look};
pub(crate) use transition::{Blend, KINDS as TRANSITIONS, Transition};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use scene::Fade;

/// Where the animation is, and whether it runs.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transport {
    /// Whether time passes.
    pub playing: bool,
    /// Time since the animation began.
    pub position_ms: f64,
}

/// What stays when the process ends and is not a look.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Settings {
    /// What people call the device.
    pub device_name: String,
    /// Whether to begin with the look that was last shown.
    pub restore_look: bool,
    /// The preset to begin with otherwise.
    pub start_preset: Option<u8>,
    /// A ceiling for the brightness, for power supplies that have one.
    pub max_brightness: u8,
}

impl Default for Settings {
    fn default() -> Self {
        Self { device_name: "Tenure LED".into(), restore_look: true, start_preset: None, max_brightness: 255 }
    }
}

/// The device.
pub(crate) struct Device {
    /// Whether it gives light.
    pub power: bool,
    /// What it shows.
    pub look: Look,
    /// Play and pause.
    pub transport: Transport,
    /// How looks change into each other.
    pub blend: Blend,
    /// Colour correction.
    pub correction: Correction,
    /// What stays.
    pub settings: Settings,
    /// Looks with a name.
    pub presets: BTreeMap<u8, Preset>,
    fade: Option<Fade>,
    /// Seconds of the effect, at its own speed.
    phase: f64,
    /// Counts changes, so that others can tell whether there was one.
    revision: u64,
}

impl Default for Device {
    fn default() -> Self {
        Self {
            power: true,
            look: Look::default(),
            transport: Transport { playing: true, position_ms: 0.0 },
            blend: Blend::default(),
            correction: Correction::default(),
            settings: Settings::default(),
            presets: BTreeMap::new(),
            fade: None,
            phase: 0.0,
            revision: 0,
        }
    }
}

/// What is kept of the device between two processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    power: bool,
    look: Look,
    transport: Transport,
    blend: Blend,
    correction: Correction,
}

impl Device {
    /// Changes the look, through the transition that is set.
    pub(crate) fn show(&mut self, look: Look, transition: Option<Transition>) {
        let from = self.scene();
        self.look = look;
        let transition = transition.unwrap_or(self.blend.transition());
        self.fade = (transition.ms > 0).then(|| Fade::new(from, transition));
        self.touch();
    }

    /// Notes that something changed.
    pub(crate) fn touch(&mut self) {
        self.revision += 1;
    }

    /// How many changes there were.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Lets time pass.
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

    /// Moves the animation to a point in its time.
    pub(crate) fn seek(&mut self, position_ms: f64) {
        self.transport.position_ms = position_ms;
        self.phase = position_ms / 1_000.0 * f64::from(self.look.params.speed) / 10.0;
        self.touch();
    }

    fn scene(&self) -> effects::Scene {
        // Effects repeat long before single precision runs out.
        self.look.scene((self.phase % 86_400.0) as f32)
    }

    /// What the renderer needs of this moment.
    pub(crate) fn picture(&self) -> Picture {
        Picture {
            dark: !self.power,
            scene: self.scene(),
            fade: self.fade.clone(),
            level: self.look.params.brightness.min(self.settings.max_brightness),
            correction: self.correction,
        }
    }

    pub(crate) fn kept(&self) -> Kept {
        Kept {
            power: self.power,
            look: self.look.clone(),
            transport: self.transport,
            blend: self.blend,
            correction: self.correction,
        }
    }

    /// Begins where an earlier process ended, as far as the settings say so.
    pub(crate) fn restore(&mut self, kept: Option<Kept>, settings: Settings, presets: BTreeMap<u8, Preset>) {
        self.settings = settings;
        self.presets = presets;
        if let Some(kept) = kept {
            self.correction = kept.correction;
            self.blend = kept.blend;
            if self.settings.restore_look {
                self.power = kept.power;
                self.look = kept.look.checked();
                self.transport = kept.transport;
                self.seek(kept.transport.position_ms);
            }
        }
        let start = self.settings.start_preset.filter(|_| !self.settings.restore_look);
        if let Some(preset) = start.and_then(|id| self.presets.get(&id)) {
            self.look = preset.look.clone();
        }
        self.touch();
    }
}

/// A moment of the device, to be drawn without holding it.
#[derive(Clone)]
pub(crate) struct Picture {
    dark: bool,
    scene: effects::Scene,
    fade: Option<Fade>,
    level: u8,
    correction: Correction,
}

impl Picture {
    /// Draws the moment; `spare` is memory for the other half of a transition.
    pub(crate) fn draw(&self, out: &mut [Rgb], spare: &mut [Rgb]) {
        if self.dark {
            return out.fill(Rgb::BLACK);
        }
        effects::draw(&self.scene, out);
        if let Some(fade) = &self.fade {
            fade.over(out, spare);
        }
        self.finish(out);
    }

    /// Brightness and correction, which streamed frames get too.
    pub(crate) fn finish(&self, out: &mut [Rgb]) {
        if self.dark {
            return out.fill(Rgb::BLACK);
        }
        self.correction.apply(self.level, out);
    }
}
