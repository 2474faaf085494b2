//! Where pictures go: previews on sockets, and strips in the world.

mod ddp;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::watch;

use crate::device::Rgb;
use ddp::Ddp;

/// Bytes before the pixels of a preview: `L`, version, LEDs and sequence as little-endian 16-bit numbers.
pub const PREVIEW_HEADER: usize = 6;
const PREVIEW_VERSION: u8 = 1;

/// Every output of the device.
pub(crate) struct Outputs {
    strips: Vec<Ddp>,
    sequence: u16,
}

impl Outputs {
    /// Opens a socket per controller; one that cannot be opened is said and left out.
    pub(crate) async fn open(controllers: &[std::net::SocketAddr]) -> Self {
        let mut strips = Vec::new();
        for address in controllers {
            match Ddp::open(*address).await {
                Ok(strip) => strips.push(strip),
                Err(error) => {
                    tracing::error!(target: crate::telemetry::TARGET, %address, %error, "no DDP output")
                }
            }
        }
        Self { strips, sequence: 0 }
    }

    /// Whether anybody sees what is shown.
    pub(crate) fn are_seen(&self, previews: &watch::Sender<Bytes>) -> bool {
        !self.strips.is_empty() || previews.receiver_count() > 0
    }

    /// Counts a picture that nobody sees.
    pub(crate) fn skip(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Shows a picture.
    pub(crate) fn show(&mut self, pixels: &[Rgb], previews: &watch::Sender<Bytes>) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut picture = BytesMut::with_capacity(PREVIEW_HEADER + pixels.len() * 3);
        picture.put_u8(b'L');
        picture.put_u8(PREVIEW_VERSION);
        picture.put_u16_le(pixels.len() as u16);
        picture.put_u16_le(self.sequence);
        for pixel in pixels {
            picture.put_slice(&[pixel.r, pixel.g, pixel.b]);
        }
        let picture = picture.freeze();
        for strip in &mut self.strips {
            strip.send(&picture[PREVIEW_HEADER..]);
        }
        previews.send_replace(picture);
    }
}
