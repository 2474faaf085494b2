//! Colours, and the mathematics of effects.

/// A pixel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Rgb {
    /// Red.
    pub r: u8,
    /// Green.
    pub g: u8,
    /// Blue.
    pub b: u8,
}

impl Rgb {
    /// Black.
    pub(crate) const BLACK: Self = Self::new(0, 0, 0);

    pub(crate) const fn new(r: u8, g: u8, b: u8) -> Self {
        Self { r, g, b }
    }

    /// A colour from hue, saturation and value; `hue` has a period of 1.
    pub(crate) fn hsv(hue: f32, saturation: f32, value: f32) -> Self {
        let channel = |offset: f32| {
            let k = (offset + hue.rem_euclid(1.0) * 6.0) % 6.0;
            let part = value - value * saturation * k.min(4.0 - k).clamp(0.0, 1.0);
            (part.clamp(0.0, 1.0) * 255.0) as u8
        };
        Self::new(channel(5.0), channel(3.0), channel(1.0))
    }

    /// Scales the brightness by a factor from 0 to 1.
    pub(crate) fn scaled(self, by: f32) -> Self {
        let by = (by.clamp(0.0, 1.0) * 256.0) as u16;
        let part = |c: u8| ((u16::from(c) * by) >> 8) as u8;
        Self::new(part(self.r), part(self.g), part(self.b))
    }

    /// Interpolates to `other` by a factor from 0 to 1.
    pub(crate) fn mixed(self, other: Self, by: f32) -> Self {
        let by = by.clamp(0.0, 1.0);
        let part = |a: u8, b: u8| (f32::from(a) + (f32::from(b) - f32::from(a)) * by) as u8;
        Self::new(part(self.r, other.r), part(self.g, other.g), part(self.b, other.b))
    }

    /// Adds two colours.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self::new(
            self.r.saturating_add(other.r),
            self.g.saturating_add(other.g),
            self.b.saturating_add(other.b),
        )
    }

    /// Changes the saturation: 0 is grey, 1 is unchanged.
    pub(crate) fn saturated(self, by: f32) -> Self {
        let grey = ((u16::from(self.r) * 77 + u16::from(self.g) * 151 + u16::from(self.b) * 28) >> 8) as u8;
        Self::new(grey, grey, grey).mixed(self, by)
    }
}

/// A deterministic pseudo-random number.
pub(crate) fn hash(input: u32) -> u32 {
    let mut x = input.wrapping_add(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x21f0_aaad);
    x = (x ^ (x >> 15)).wrapping_mul(0x735a_2d97);
    x ^ (x >> 15)
}

/// [`hash`], scaled to 0 to 1.
pub(crate) fn random_unit(input: u32) -> f32 {
    (hash(input) >> 8) as f32 / 16_777_216.0
}

/// Smooth one-dimensional noise from 0 to 1, with one lattice point per unit.
pub(crate) fn noise(at: f32, seed: u32) -> f32 {
    let floor = at.floor();
    let part = at - floor;
    let smooth = part * part * (3.0 - 2.0 * part);
    let cell = (floor as i64 as u32).wrapping_mul(0x27d4_eb2f) ^ seed.wrapping_mul(0x1656_67b1);
    let next = ((floor as i64 + 1) as u32).wrapping_mul(0x27d4_eb2f) ^ seed.wrapping_mul(0x1656_67b1);
    let (a, b) = (random_unit(cell), random_unit(next));
    a + (b - a) * smooth
}

/// A sine from 0 to 1 with a period of 1.
pub(crate) fn wave(at: f32) -> f32 {
    0.5 + 0.5 * (at * std::f32::consts::TAU).sin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hue_starts_at_red_and_wraps_around() {
        assert_eq!(Rgb::hsv(0.0, 1.0, 1.0), Rgb::new(255, 0, 0));
        assert_eq!(Rgb::hsv(1.0 / 3.0, 1.0, 1.0), Rgb::new(0, 255, 0));
        assert_eq!(Rgb::hsv(2.0 / 3.0, 1.0, 1.0), Rgb::new(0, 0, 255));
        assert_eq!(Rgb::hsv(-1.0, 1.0, 1.0), Rgb::hsv(3.0, 1.0, 1.0));
        assert_eq!(Rgb::hsv(0.4, 0.0, 1.0), Rgb::new(255, 255, 255));
    }

    #[test]
    fn noise_is_smooth_and_bounded() {
        let mut last = noise(-2.0, 7);
        for step in -2_000..2_000 {
            let now = noise(step as f32 / 1_000.0, 7);
            assert!((0.0..=1.0).contains(&now) && (now - last).abs() < 0.01, "{step}");
            last = now;
        }
    }
}
