//! The effects. Each is a pure function of time and position, so that frames can be drawn at any rate, and two effects
//! at once in a transition.

use super::colour::{Rgb, noise, random_unit, wave};
use super::palette::{PALETTES, Palette};

/// The input of an effect.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scene {
    /// The id of the effect.
    pub effect: u8,
    /// The id of the palette.
    pub palette: u8,
    /// Intensity, 0 to 255.
    pub intensity: u8,
    /// Saturation.
    pub saturation: u8,
    /// Complexity.
    pub complexity: u8,
    /// Variation.
    pub variation: u8,
    /// The parameters of the effect.
    pub own: [u8; 2],
    /// Effect time in seconds, scaled by its speed.
    pub time: f32,
}

/// A parameter of one effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectParameter {
    /// Its name.
    pub name: &'static str,
    /// The default value.
    pub default: u8,
}

type Draw = fn(&DrawContext<'_>, f32) -> Rgb;

/// An effect.
pub(crate) struct Effect {
    /// The display name.
    pub name: &'static str,
    /// A description.
    pub about: &'static str,
    /// Its parameters, at most two.
    pub own: &'static [EffectParameter],
    draw: Draw,
}

const fn own(name: &'static str, default: u8) -> EffectParameter {
    EffectParameter { name, default }
}

/// Every effect; the index is the id.
pub(crate) const EFFECTS: &[Effect] = &[
    Effect { name: "Solid", about: "one colour of the palette", own: &[own("hue", 0)], draw: solid },
    Effect {
        name: "Gradient",
        about: "the palette along the strip",
        own: &[own("drift", 32)],
        draw: gradient,
    },
    Effect {
        name: "Rainbow",
        about: "the wheel of colours, turning",
        own: &[own("repeat", 64)],
        draw: rainbow,
    },
    Effect {
        name: "Fire",
        about: "flames that lick from the base",
        own: &[own("cooling", 110), own("spark", 140)],
        draw: fire,
    },
    Effect { name: "Twinkle", about: "stars that come and go", own: &[own("density", 90)], draw: twinkle },
    Effect {
        name: "Comet",
        about: "heads with fading tails",
        own: &[own("tail", 110), own("count", 60)],
        draw: comet,
    },
    Effect { name: "Waves", about: "three swells that cross", own: &[own("swell", 128)], draw: waves },
    Effect { name: "Plasma", about: "slow clouds of colour", own: &[], draw: plasma },
    Effect { name: "Aurora", about: "curtains of northern light", own: &[own("curtain", 120)], draw: aurora },
    Effect {
        name: "Breathe",
        about: "the whole strip, in and out",
        own: &[own("depth", 220)],
        draw: breathe,
    },
    Effect { name: "Chase", about: "lamps that run after each other", own: &[own("gap", 80)], draw: chase },
    Effect { name: "Scanner", about: "an eye that sweeps", own: &[own("width", 70)], draw: scanner },
    Effect { name: "Ripple", about: "rings from drops in a pond", own: &[own("rings", 96)], draw: ripple },
    Effect { name: "Confetti", about: "specks in all colours", own: &[own("density", 130)], draw: confetti },
    Effect {
        name: "Heartbeat",
        about: "two beats and a rest, from the middle",
        own: &[own("reach", 150)],
        draw: heartbeat,
    },
    Effect { name: "Lightning", about: "storms far away", own: &[own("rate", 100)], draw: lightning },
];

/// A scene with normalized parameters.
struct DrawContext<'a> {
    palette: &'a Palette,
    time: f32,
    intensity: f32,
    detail: f32,
    flavour: f32,
    own: [f32; 2],
    leds: f32,
}

/// Draws a scene.
pub(crate) fn draw(scene: &Scene, out: &mut [Rgb]) {
    let effect = EFFECTS.get(usize::from(scene.effect)).unwrap_or(&EFFECTS[0]);
    let part = |value: u8| f32::from(value) / 255.0;
    let ctx = DrawContext {
        palette: PALETTES.get(usize::from(scene.palette)).unwrap_or(&PALETTES[0]),
        time: scene.time,
        intensity: part(scene.intensity),
        detail: 0.25 + 1.75 * part(scene.complexity),
        flavour: part(scene.variation),
        own: scene.own.map(part),
        leds: out.len() as f32,
    };
    let (leds, saturation) = (out.len().max(1) as f32, part(scene.saturation));
    for (i, pixel) in out.iter_mut().enumerate() {
        let colour = (effect.draw)(&ctx, i as f32 / leds);
        *pixel = if scene.saturation == 255 { colour } else { colour.saturated(saturation) };
    }
}

fn solid(ctx: &DrawContext<'_>, _: f32) -> Rgb {
    ctx.palette.at(ctx.own[0] + ctx.flavour).scaled(0.2 + 0.8 * ctx.intensity)
}

fn gradient(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    ctx.palette.at(x * ctx.detail + ctx.time * ctx.own[0] * 0.5 + ctx.flavour)
}

fn rainbow(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let turns = 0.5 + 4.0 * ctx.own[0];
    Rgb::hsv(x * turns - ctx.time * 0.25 + ctx.flavour, 1.0, 0.35 + 0.65 * ctx.intensity)
}

/// Heat from both shutdown of the strip, as on two strips that meet in the middle.
fn fire(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let height = 1.0 - (2.0 * x - 1.0).abs();
    let side = if x < 0.5 { 11 } else { 23 };
    let rise = ctx.time * 2.2;
    let lick = noise(height * 7.0 * ctx.detail - rise, side) * 0.55
        + noise(height * 17.0 - rise * 2.1, side + 1) * 0.45;
    let spark = (noise(ctx.time * 5.0, side + 2) * ctx.own[1]).powi(2) * (1.0 - height);
    let heat =
        (lick * (0.75 + 0.65 * ctx.intensity) + spark - height * (0.35 + 0.9 * ctx.own[0])).clamp(0.0, 1.0);
    match ctx.flavour > 0.5 {
        true => ctx.palette.at(heat * 0.5).scaled(heat * 1.6),
        false => Rgb::new(
            (heat * 3.0).min(1.0).mul_add(255.0, 0.0) as u8,
            ((heat * 3.0 - 1.0).clamp(0.0, 1.0) * 220.0) as u8,
            ((heat * 3.0 - 2.2).clamp(0.0, 1.0) * 160.0) as u8,
        ),
    }
}

fn twinkle(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let led = (x * ctx.leds) as u32;
    let (period, shift) = (1.5 + 3.0 * random_unit(led), random_unit(led ^ 0x55aa) * 7.0);
    let turn = ctx.time / period + shift;
    let star = random_unit(led.wrapping_mul(31) ^ turn as u32) < 0.08 + 0.5 * ctx.own[0];
    let glow = if star { wave(turn.fract() - 0.25).powi(3) } else { 0.0 };
    let base = ctx.palette.at(x + ctx.flavour).scaled(0.04);
    base.plus(
        ctx.palette.at(random_unit(led ^ 0x1234) + ctx.flavour).scaled(glow * (0.4 + 0.6 * ctx.intensity)),
    )
}

fn comet(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let count = 1 + (ctx.own[1] * 7.0) as u32;
    let tail = 0.03 + 0.4 * ctx.own[0];
    (0..count).fold(Rgb::BLACK, |sum, n| {
        let n = n as f32 / count as f32;
        let head = ctx.time * (0.18 + 0.05 * (n * 9.0).sin() * ctx.flavour) + n;
        let behind = (head - x).rem_euclid(1.0);
        let light = (1.0 - behind / tail).max(0.0).powi(2);
        sum.plus(ctx.palette.at(n + behind).scaled(light * (0.3 + 0.7 * ctx.intensity)))
    })
}

fn waves(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let k = 1.0 + 3.0 * ctx.detail * (0.4 + ctx.own[0]);
    let height = (wave(x * k + ctx.time * 0.31)
        + wave(x * k * 1.7 - ctx.time * 0.23 + ctx.flavour)
        + wave(x * k * 0.6 + ctx.time * 0.13))
        / 3.0;
    ctx.palette
        .at(x * 0.4 + height * 0.5 + ctx.time * 0.03)
        .scaled(0.12 + (0.3 + 0.7 * ctx.intensity) * height * height * 1.4)
}

fn plasma(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let k = 3.0 * ctx.detail;
    let cloud = noise(x * k + ctx.time * 0.4, 1)
        + noise(x * k * 2.3 - ctx.time * 0.3, 2) * 0.5
        + wave(x - ctx.time * 0.07) * 0.4;
    ctx.palette
        .at(cloud * 0.8 + ctx.flavour)
        .scaled(0.35 + 0.65 * ctx.intensity * noise(x * k * 0.7 + ctx.time * 0.2, 3))
}

fn aurora(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let fold = noise(x * (2.0 + 6.0 * ctx.own[0]) * ctx.detail + ctx.time * 0.25, 40);
    let shine = noise(x * 9.0 - ctx.time * 0.6, 41) * 0.4 + 0.6;
    let light = (fold * 1.5 - 0.35).clamp(0.0, 1.0).powi(2) * shine;
    ctx.palette
        .at(0.25 + x * 0.35 + fold * 0.3 + ctx.flavour)
        .scaled(0.03 + light * (0.4 + 0.6 * ctx.intensity))
}

fn breathe(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let breath = wave(ctx.time * 0.18 - 0.25).powf(1.6);
    let light = 1.0 - ctx.own[0] * (1.0 - breath);
    ctx.palette
        .at(ctx.time * 0.02 + x * 0.15 * ctx.detail + ctx.flavour)
        .scaled(light * (0.2 + 0.8 * ctx.intensity))
}

fn chase(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let gap = 3.0 + 20.0 * ctx.own[0];
    let place = (x * ctx.leds - ctx.time * 18.0).rem_euclid(gap);
    let light = (1.0 - (place - 1.5).abs() / 1.5).clamp(0.0, 1.0);
    ctx.palette.at(x * ctx.detail + ctx.flavour).scaled(0.02 + light * (0.3 + 0.7 * ctx.intensity))
}

fn scanner(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let swing = (ctx.time * 0.35).rem_euclid(2.0);
    let eye = if swing < 1.0 { swing } else { 2.0 - swing };
    let eye = eye * eye * (3.0 - 2.0 * eye);
    let light = (1.0 - (x - eye).abs() / (0.02 + 0.25 * ctx.own[0])).max(0.0);
    ctx.palette.at(eye * 0.5 + ctx.flavour).scaled(light * light * (0.3 + 0.7 * ctx.intensity))
}

fn ripple(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let drops = 1 + (ctx.own[0] * 5.0) as u32;
    (0..drops).fold(ctx.palette.at(ctx.flavour).scaled(0.03), |sum, n| {
        let turn = ctx.time * 0.4 + random_unit(n) * 5.0;
        let centre = random_unit(n.wrapping_mul(977) ^ turn as u32);
        let (age, away) = (turn.fract(), (x - centre).abs());
        let ring = (1.0 - ((away - age * 0.6) * 22.0 / ctx.detail).abs()).max(0.0);
        sum.plus(
            ctx.palette.at(centre + away).scaled(ring * (1.0 - age).powi(2) * (0.4 + 0.6 * ctx.intensity)),
        )
    })
}

fn confetti(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let led = (x * ctx.leds) as u32;
    let turn = ctx.time * 1.3 + random_unit(led) * 11.0;
    let born = random_unit(led.wrapping_mul(7_919) ^ (turn as u32).wrapping_mul(104_729));
    let light = if born < 0.1 + 0.6 * ctx.own[0] { (1.0 - turn.fract()).powi(3) } else { 0.0 };
    ctx.palette.at(born * 13.0 + ctx.flavour).scaled(light * (0.3 + 0.7 * ctx.intensity))
}

fn heartbeat(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let t = (ctx.time * 0.9).rem_euclid(1.0);
    let beat = |at: f32, size: f32| size * (1.0 - ((t - at) * 9.0).abs()).max(0.0);
    let pulse = beat(0.12, 1.0) + beat(0.34, 0.65);
    let reach = 0.1 + 0.9 * ctx.own[0];
    let glow = (pulse - (2.0 * x - 1.0).abs() / reach * 0.7).clamp(0.0, 1.0);
    ctx.palette.at(ctx.flavour + glow * 0.15).scaled(0.02 + glow * (0.4 + 0.6 * ctx.intensity))
}

fn lightning(ctx: &DrawContext<'_>, x: f32) -> Rgb {
    let slot = (ctx.time * 6.0) as u32;
    let strike = random_unit(slot) < 0.03 + 0.25 * ctx.own[0];
    let centre = random_unit(slot ^ 0x777);
    let flicker = random_unit((ctx.time * 45.0) as u32 ^ 0x99);
    let near = (1.0 - (x - centre).abs() * 3.0).max(0.0);
    let flash = if strike { near * flicker * (0.4 + 0.6 * ctx.intensity) } else { 0.0 };
    let sky = ctx.palette.at(0.1 + ctx.flavour + noise(x * 4.0 + ctx.time * 0.1, 5) * 0.2).scaled(0.05);
    sky.plus(Rgb::new(225, 232, 255).scaled(flash))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(effect: u8, time: f32) -> Scene {
        let own = EFFECTS[usize::from(effect)].own;
        let value = |i: usize| own.get(i).map_or(0, |own| own.default);
        Scene {
            effect,
            palette: 0,
            intensity: 200,
            saturation: 255,
            complexity: 128,
            variation: 0,
            own: [value(0), value(1)],
            time,
        }
    }

    fn frame(scene: &Scene) -> Vec<Rgb> {
        let mut out = vec![Rgb::BLACK; 320];
        draw(scene, &mut out);
        out
    }

    #[test]
    fn there_is_a_dozen_and_more_and_each_gives_light_and_moves() {
        assert!(EFFECTS.len() >= 12);
        for (id, effect) in EFFECTS.iter().enumerate() {
            assert!(effect.own.len() <= 2, "{}", effect.name);
            let frames: Vec<_> = (0..120).map(|i| frame(&scene(id as u8, i as f32 * 0.13))).collect();
            let lit = frames.iter().filter(|frame| frame.iter().any(|p| p.r.max(p.g).max(p.b) > 40)).count();
            assert!(lit > 3, "{} is dark: {lit}", effect.name);
            if effect.name != "Solid" {
                assert!(frames.windows(2).any(|two| two[0] != two[1]), "{} stands still", effect.name);
            }
            assert_eq!(frame(&scene(id as u8, 1.0)), frame(&scene(id as u8, 1.0)), "{}", effect.name);
        }
    }

    #[test]
    fn every_parameter_has_a_visible_effect() {
        let differs = |change: fn(&mut Scene)| {
            (0..EFFECTS.len()).any(|id| {
                let plain = scene(id as u8, 2.0);
                let mut other = plain.clone();
                change(&mut other);
                frame(&plain) != frame(&other)
            })
        };
        assert!(differs(|s| s.palette = 3) && differs(|s| s.intensity = 20) && differs(|s| s.saturation = 0));
        assert!(
            differs(|s| s.complexity = 255) && differs(|s| s.variation = 200) && differs(|s| s.own = [9, 9])
        );
    }

    #[test]
    fn every_effect_accepts_all_parameter_values() {
        for id in 0..=255 {
            for value in [0, 255] {
                let mut scene = scene(id % EFFECTS.len() as u8, 1e9);
                scene = Scene {
                    effect: id,
                    palette: id,
                    intensity: value,
                    saturation: value,
                    complexity: value,
                    variation: value,
                    own: [value; 2],
                    ..scene
                };
                for leds in [0, 1, 2, 320] {
                    draw(&scene, &mut vec![Rgb::BLACK; leds]);
                }
            }
        }
    }
}
