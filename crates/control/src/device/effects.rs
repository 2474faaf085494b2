//! The effects. Each is a function of time and place with no memory, so that a frame can be drawn again, at any
//! rate, and in transitions two can be drawn at once.

use super::colour::{Rgb, chance, noise, wave};
use super::palette::{PALETTES, Palette};

/// What an effect draws with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scene {
    /// Which effect.
    pub effect: u8,
    /// Which palette.
    pub palette: u8,
    /// How strong, 0 to 255.
    pub intensity: u8,
    /// How colourful.
    pub saturation: u8,
    /// How detailed.
    pub complexity: u8,
    /// Which flavour.
    pub variation: u8,
    /// The effect's own parameters.
    pub own: [u8; 2],
    /// Time in seconds of the effect, already at its speed.
    pub time: f32,
}

/// A parameter of one effect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Own {
    /// Its name.
    pub name: &'static str,
    /// What it is until somebody sets it.
    pub default: u8,
}

type Draw = fn(&Pen<'_>, f32) -> Rgb;

/// An effect.
pub(crate) struct Effect {
    /// What people call it.
    pub name: &'static str,
    /// What it looks like.
    pub about: &'static str,
    /// Its own parameters, at most two.
    pub own: &'static [Own],
    draw: Draw,
}

const fn own(name: &'static str, default: u8) -> Own {
    Own { name, default }
}

/// Every effect; its place is its id.
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

/// A scene with its numbers made ready.
struct Pen<'a> {
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
    let pen = Pen {
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
        let colour = (effect.draw)(&pen, i as f32 / leds);
        *pixel = if scene.saturation == 255 { colour } else { colour.saturated(saturation) };
    }
}

fn solid(pen: &Pen<'_>, _: f32) -> Rgb {
    pen.palette.at(pen.own[0] + pen.flavour).scaled(0.2 + 0.8 * pen.intensity)
}

fn gradient(pen: &Pen<'_>, x: f32) -> Rgb {
    pen.palette.at(x * pen.detail + pen.time * pen.own[0] * 0.5 + pen.flavour)
}

fn rainbow(pen: &Pen<'_>, x: f32) -> Rgb {
    let turns = 0.5 + 4.0 * pen.own[0];
    Rgb::hsv(x * turns - pen.time * 0.25 + pen.flavour, 1.0, 0.35 + 0.65 * pen.intensity)
}

/// Heat from both ends of the strip, as on two strips that meet in the middle.
fn fire(pen: &Pen<'_>, x: f32) -> Rgb {
    let height = 1.0 - (2.0 * x - 1.0).abs();
    let side = if x < 0.5 { 11 } else { 23 };
    let rise = pen.time * 2.2;
    let lick = noise(height * 7.0 * pen.detail - rise, side) * 0.55
        + noise(height * 17.0 - rise * 2.1, side + 1) * 0.45;
    let spark = (noise(pen.time * 5.0, side + 2) * pen.own[1]).powi(2) * (1.0 - height);
    let heat =
        (lick * (0.75 + 0.65 * pen.intensity) + spark - height * (0.35 + 0.9 * pen.own[0])).clamp(0.0, 1.0);
    match pen.flavour > 0.5 {
        true => pen.palette.at(heat * 0.5).scaled(heat * 1.6),
        false => Rgb::new(
            (heat * 3.0).min(1.0).mul_add(255.0, 0.0) as u8,
            ((heat * 3.0 - 1.0).clamp(0.0, 1.0) * 220.0) as u8,
            ((heat * 3.0 - 2.2).clamp(0.0, 1.0) * 160.0) as u8,
        ),
    }
}

fn twinkle(pen: &Pen<'_>, x: f32) -> Rgb {
    let led = (x * pen.leds) as u32;
    let (period, shift) = (1.5 + 3.0 * chance(led), chance(led ^ 0x55aa) * 7.0);
    let turn = pen.time / period + shift;
    let star = chance(led.wrapping_mul(31) ^ turn as u32) < 0.08 + 0.5 * pen.own[0];
    let glow = if star { wave(turn.fract() - 0.25).powi(3) } else { 0.0 };
    let base = pen.palette.at(x + pen.flavour).scaled(0.04);
    base.plus(pen.palette.at(chance(led ^ 0x1234) + pen.flavour).scaled(glow * (0.4 + 0.6 * pen.intensity)))
}

fn comet(pen: &Pen<'_>, x: f32) -> Rgb {
    let count = 1 + (pen.own[1] * 7.0) as u32;
    let tail = 0.03 + 0.4 * pen.own[0];
    (0..count).fold(Rgb::BLACK, |sum, n| {
        let n = n as f32 / count as f32;
        let head = pen.time * (0.18 + 0.05 * (n * 9.0).sin() * pen.flavour) + n;
        let behind = (head - x).rem_euclid(1.0);
        let light = (1.0 - behind / tail).max(0.0).powi(2);
        sum.plus(pen.palette.at(n + behind).scaled(light * (0.3 + 0.7 * pen.intensity)))
    })
}

fn waves(pen: &Pen<'_>, x: f32) -> Rgb {
    let k = 1.0 + 3.0 * pen.detail * (0.4 + pen.own[0]);
    let height = (wave(x * k + pen.time * 0.31)
        + wave(x * k * 1.7 - pen.time * 0.23 + pen.flavour)
        + wave(x * k * 0.6 + pen.time * 0.13))
        / 3.0;
    pen.palette
        .at(x * 0.4 + height * 0.5 + pen.time * 0.03)
        .scaled(0.12 + (0.3 + 0.7 * pen.intensity) * height * height * 1.4)
}

fn plasma(pen: &Pen<'_>, x: f32) -> Rgb {
    let k = 3.0 * pen.detail;
    let cloud = noise(x * k + pen.time * 0.4, 1)
        + noise(x * k * 2.3 - pen.time * 0.3, 2) * 0.5
        + wave(x - pen.time * 0.07) * 0.4;
    pen.palette
        .at(cloud * 0.8 + pen.flavour)
        .scaled(0.35 + 0.65 * pen.intensity * noise(x * k * 0.7 + pen.time * 0.2, 3))
}

fn aurora(pen: &Pen<'_>, x: f32) -> Rgb {
    let fold = noise(x * (2.0 + 6.0 * pen.own[0]) * pen.detail + pen.time * 0.25, 40);
    let shine = noise(x * 9.0 - pen.time * 0.6, 41) * 0.4 + 0.6;
    let light = (fold * 1.5 - 0.35).clamp(0.0, 1.0).powi(2) * shine;
    pen.palette
        .at(0.25 + x * 0.35 + fold * 0.3 + pen.flavour)
        .scaled(0.03 + light * (0.4 + 0.6 * pen.intensity))
}

fn breathe(pen: &Pen<'_>, x: f32) -> Rgb {
    let breath = wave(pen.time * 0.18 - 0.25).powf(1.6);
    let light = 1.0 - pen.own[0] * (1.0 - breath);
    pen.palette
        .at(pen.time * 0.02 + x * 0.15 * pen.detail + pen.flavour)
        .scaled(light * (0.2 + 0.8 * pen.intensity))
}

fn chase(pen: &Pen<'_>, x: f32) -> Rgb {
    let gap = 3.0 + 20.0 * pen.own[0];
    let place = (x * pen.leds - pen.time * 18.0).rem_euclid(gap);
    let light = (1.0 - (place - 1.5).abs() / 1.5).clamp(0.0, 1.0);
    pen.palette.at(x * pen.detail + pen.flavour).scaled(0.02 + light * (0.3 + 0.7 * pen.intensity))
}

fn scanner(pen: &Pen<'_>, x: f32) -> Rgb {
    let swing = (pen.time * 0.35).rem_euclid(2.0);
    let eye = if swing < 1.0 { swing } else { 2.0 - swing };
    let eye = eye * eye * (3.0 - 2.0 * eye);
    let light = (1.0 - (x - eye).abs() / (0.02 + 0.25 * pen.own[0])).max(0.0);
    pen.palette.at(eye * 0.5 + pen.flavour).scaled(light * light * (0.3 + 0.7 * pen.intensity))
}

fn ripple(pen: &Pen<'_>, x: f32) -> Rgb {
    let drops = 1 + (pen.own[0] * 5.0) as u32;
    (0..drops).fold(pen.palette.at(pen.flavour).scaled(0.03), |sum, n| {
        let turn = pen.time * 0.4 + chance(n) * 5.0;
        let centre = chance(n.wrapping_mul(977) ^ turn as u32);
        let (age, away) = (turn.fract(), (x - centre).abs());
        let ring = (1.0 - ((away - age * 0.6) * 22.0 / pen.detail).abs()).max(0.0);
        sum.plus(
            pen.palette.at(centre + away).scaled(ring * (1.0 - age).powi(2) * (0.4 + 0.6 * pen.intensity)),
        )
    })
}

fn confetti(pen: &Pen<'_>, x: f32) -> Rgb {
    let led = (x * pen.leds) as u32;
    let turn = pen.time * 1.3 + chance(led) * 11.0;
    let born = chance(led.wrapping_mul(7_919) ^ (turn as u32).wrapping_mul(104_729));
    let light = if born < 0.1 + 0.6 * pen.own[0] { (1.0 - turn.fract()).powi(3) } else { 0.0 };
    pen.palette.at(born * 13.0 + pen.flavour).scaled(light * (0.3 + 0.7 * pen.intensity))
}

fn heartbeat(pen: &Pen<'_>, x: f32) -> Rgb {
    let t = (pen.time * 0.9).rem_euclid(1.0);
    let beat = |at: f32, size: f32| size * (1.0 - ((t - at) * 9.0).abs()).max(0.0);
    let pulse = beat(0.12, 1.0) + beat(0.34, 0.65);
    let reach = 0.1 + 0.9 * pen.own[0];
    let glow = (pulse - (2.0 * x - 1.0).abs() / reach * 0.7).clamp(0.0, 1.0);
    pen.palette.at(pen.flavour + glow * 0.15).scaled(0.02 + glow * (0.4 + 0.6 * pen.intensity))
}

fn lightning(pen: &Pen<'_>, x: f32) -> Rgb {
    let slot = (pen.time * 6.0) as u32;
    let strike = chance(slot) < 0.03 + 0.25 * pen.own[0];
    let centre = chance(slot ^ 0x777);
    let flicker = chance((pen.time * 45.0) as u32 ^ 0x99);
    let near = (1.0 - (x - centre).abs() * 3.0).max(0.0);
    let flash = if strike { near * flicker * (0.4 + 0.6 * pen.intensity) } else { 0.0 };
    let sky = pen.palette.at(0.1 + pen.flavour + noise(x * 4.0 + pen.time * 0.1, 5) * 0.2).scaled(0.05);
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
    fn every_parameter_shows_somewhere() {
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
    fn no_number_makes_an_effect_fail() {
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
