//! Outputs of frames: previews on WebSockets, and LED strips over DDP.

mod ddp;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::sync::watch;

use crate::device::Rgb;
use ddp::Ddp;

/// Header bytes of a preview frame: `L`, version, LED count and sequence number (16 bits each, little-endian).
pub const PREVIEW_HEADER: usize = 6;
const PREVIEW_VERSION: u8 = 1;

/// The outputs of the device.
pub(crate) struct Outputs {
    strips: Vec<Ddp>,
    sequence: u16,
}

impl Outputs {
    /// Opens a socket for each controller. A failure is logged and the controller skipped.
    pub(crate) async fn open(controllers: &[std::net::SocketAddr]) -> Self {
        let mut strips = Vec::new();
        for address in controllers {
            match Ddp::open(*address).await {
                Ok(strip) => strips.push(strip),
                Err(error) => {
                    tracing::error!(target: crate::telemetry::TARGET, %address, %error, "cannot open DDP output")
                }
            }
        }
        Self { strips, sequence: 0 }
    }

    /// Whether any output would receive a frame.
    pub(crate) fn have_viewers(&self, previews: &watch::Sender<Bytes>) -> bool {
        !self.strips.is_empty() || previews.receiver_count() > 0
    }

    /// Counts a frame without viewers.
    pub(crate) fn skip(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Sends a frame to every output.
    pub(crate) fn send(&mut self, pixels: &[Rgb], previews: &watch::Sender<Bytes>) {
        self.sequence = self.sequence.wrapping_add(1);
        let mut frame = BytesMut::with_capacity(PREVIEW_HEADER + pixels.len() * 3);
        frame.put_u8(b'L');
        frame.put_u8(PREVIEW_VERSION);
        frame.put_u16_le(pixels.len() as u16);
        frame.put_u16_le(self.sequence);
        for pixel in pixels {
            frame.put_slice(&[pixel.r, pixel.g, pixel.b]);
        }
        let frame = frame.freeze();
        for strip in &mut self.strips {
            strip.send(&frame[PREVIEW_HEADER..]);
        }
        previews.send_replace(frame);
    }
}
