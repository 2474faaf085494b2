//! The look of the device: effect, palette and parameters; and its colour correction.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::colour::Rgb;
use super::effects::{self, EFFECTS, Scene};
use super::palette::PALETTES;
use super::transition::Transition;

/// Parameters common to all effects.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Params {
    /// 0 to 255.
    pub brightness: u8,
    /// 1 to 50.
    pub speed: u8,
    /// 0 to 255.
    pub intensity: u8,
    /// 0 to 255.
    pub saturation: u8,
    /// 0 to 255.
    pub complexity: u8,
    /// 0 to 255.
    pub variation: u8,
}

impl Default for Params {
    fn default() -> Self {
        Self { brightness: 180, speed: 10, intensity: 200, saturation: 255, complexity: 128, variation: 0 }
    }
}

/// The effect, palette and parameters that the device shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LightLook {
    /// The effect's id.
    pub effect_id: u8,
    /// The palette's id.
    pub palette_id: u8,
    /// The common parameters.
    #[serde(flatten)]
    pub params: Params,
    /// Parameters of single effects, by effect.
    #[serde(default)]
    pub own: BTreeMap<u8, [u8; 2]>,
}

impl Default for LightLook {
    fn default() -> Self {
        Self { effect_id: 6, palette_id: 2, params: Params::default(), own: BTreeMap::new() }
    }
}

impl LightLook {
    /// The parameters of one effect.
    pub(crate) fn own(&self, effect: u8) -> [u8; 2] {
        self.own.get(&effect).copied().unwrap_or_else(|| {
            let own = EFFECTS.get(usize::from(effect)).map_or(&[][..], |effect| effect.own);
            [0, 1].map(|i| own.get(i).map_or(0, |own: &effects::EffectParameter| own.default))
        })
    }

    pub(super) fn scene(&self, time: f32) -> Scene {
        Scene {
            effect: self.effect_id,
            palette: self.palette_id,
            intensity: self.params.intensity,
            saturation: self.params.saturation,
            complexity: self.params.complexity,
            variation: self.params.variation,
            own: self.own(self.effect_id),
            time,
        }
    }

    /// Clamps a stored look of an older build to the limits of this one.
    pub(super) fn checked(mut self) -> Self {
        self.effect_id = self.effect_id.min(EFFECTS.len() as u8 - 1);
        self.palette_id = self.palette_id.min(PALETTES.len() as u8 - 1);
        self.params.speed = self.params.speed.clamp(1, 50);
        self.own.retain(|effect, _| usize::from(*effect) < EFFECTS.len());
        self
    }
}

/// Colour correction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Correction {
    /// Gamma in hundredths; 100 is linear.
    pub gamma: u16,
    /// Scale of red.
    pub red: u8,
    /// Scale of green.
    pub green: u8,
    /// Scale of blue.
    pub blue: u8,
}

impl Default for Correction {
    fn default() -> Self {
        Self { gamma: 100, red: 255, green: 255, blue: 255 }
    }
}

impl Correction {
    pub(super) fn apply(self, level: u8, out: &mut [Rgb]) {
        if level == 255 && self == Self::default() {
            return;
        }
        let gamma = f32::from(self.gamma.clamp(50, 400)) / 100.0;
        let table = |share: u8| {
            let scale = f32::from(share) / 255.0 * f32::from(level);
            std::array::from_fn::<u8, 256, _>(|i| ((i as f32 / 255.0).powf(gamma) * scale + 0.5) as u8)
        };
        let (red, green, blue) = (table(self.red), table(self.green), table(self.blue));
        for pixel in out {
            pixel.r = red[usize::from(pixel.r)];
            pixel.g = green[usize::from(pixel.g)];
            pixel.b = blue[usize::from(pixel.b)];
        }
    }
}

/// A transition between two looks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fade {
    from: Scene,
    transition: Transition,
    passed: f64,
}

impl Fade {
    pub(super) fn new(from: Scene, transition: Transition) -> Self {
        Self { from, transition, passed: 0.0 }
    }

    /// Advances the transition. Returns whether it is complete.
    pub(super) fn advance(&mut self, ms: f64) -> bool {
        self.passed += ms;
        self.from.time += (ms / 1_000.0) as f32;
        self.passed >= f64::from(self.transition.ms)
    }

    /// Blends the old look over the new one.
    pub(super) fn blend_over(&self, out: &mut [Rgb], spare: &mut [Rgb]) {
        effects::draw(&self.from, spare);
        let done = (self.passed / f64::from(self.transition.ms.max(1))) as f32;
        let leds = out.len().max(1) as f32;
        for (i, (new, old)) in out.iter_mut().zip(spare).enumerate() {
            *new = old.mixed(*new, self.transition.share(done, i as f32 / leds, i as u32));
        }
    }
}
