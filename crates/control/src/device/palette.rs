//! Palettes: colour gradients for effects.

use super::colour::Rgb;

/// A cyclic gradient.
pub(crate) struct Palette {
    /// The display name.
    pub name: &'static str,
    stops: &'static [u32],
}

/// Every palette; the index is the id.
pub(crate) const PALETTES: &[Palette] = &[
    Palette {
        name: "Spectrum",
        stops: &[0xff0000, 0xffaa00, 0x60ff00, 0x00ff90, 0x0090ff, 0x6000ff, 0xff00aa],
    },
    Palette {
        name: "Embers",
        stops: &[0x120000, 0x7a0a00, 0xff3c00, 0xffb428, 0xffe6a0, 0xff5a00, 0x500000],
    },
    Palette { name: "Ocean", stops: &[0x00081e, 0x003c78, 0x0096b4, 0x5ae6dc, 0x0078a0, 0x001e50] },
    Palette { name: "Forest", stops: &[0x021402, 0x0a501e, 0x3c8c14, 0xa0d23c, 0x1e6e28, 0x05280f] },
    Palette {
        name: "Sunset",
        stops: &[0x1e0032, 0x78145a, 0xe63c46, 0xff8c3c, 0xffd282, 0xc83264, 0x3c0a50],
    },
    Palette { name: "Aurora", stops: &[0x001428, 0x00b464, 0x50ffb4, 0x3c78ff, 0x8c32dc, 0x00285a] },
    Palette { name: "Candy", stops: &[0xff3c96, 0xffb4dc, 0x78dcff, 0x9664ff, 0xff78c8] },
    Palette { name: "Ice", stops: &[0xffffff, 0xb4e6ff, 0x3ca0ff, 0x0a3cb4, 0x82c8ff] },
    Palette { name: "Lava", stops: &[0x000000, 0x640000, 0xff1e00, 0xff8200, 0x960000, 0x1e0000] },
    Palette { name: "Neon", stops: &[0xff00ff, 0x00ffff, 0x00ff46, 0xfff000, 0xff0064] },
    Palette { name: "Dusk", stops: &[0x0a0f32, 0x323c82, 0x966eb4, 0xf0a0a0, 0x5a4682] },
    Palette { name: "Gold", stops: &[0x281400, 0xa05a00, 0xffb41e, 0xfff0b4, 0xc87800] },
    Palette { name: "Mono", stops: &[0xffffff, 0x606060, 0x101010, 0x808080] },
];

impl Palette {
    /// The colour at a position, with a period of 1.
    pub(crate) fn at(&self, position: f32) -> Rgb {
        let scaled = position.rem_euclid(1.0) * self.stops.len() as f32;
        let first = scaled as usize % self.stops.len();
        let next = (first + 1) % self.stops.len();
        rgb(self.stops[first]).mixed(rgb(self.stops[next]), scaled.fract())
    }

    /// The colour stops, as `#rrggbb`.
    pub(crate) fn colours(&self) -> Vec<String> {
        self.stops.iter().map(|stop| format!("#{stop:06x}")).collect()
    }
}

fn rgb(stop: u32) -> Rgb {
    let [_, r, g, b] = stop.to_be_bytes();
    Rgb::new(r, g, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_palette_is_cyclic() {
        for palette in PALETTES {
            assert_eq!(palette.at(0.0), palette.at(1.0), "{}", palette.name);
            assert_eq!(palette.at(-0.25), palette.at(0.75), "{}", palette.name);
        }
    }
}
