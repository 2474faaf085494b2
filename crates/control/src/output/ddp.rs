//! DDP: pixels over UDP, for WLED and other LED controllers.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

/// Bytes of the header.
const HEADER: usize = 10;
/// Maximum data bytes of a packet: a multiple of the pixel size that fits an Ethernet frame.
const MAX_DATA: usize = 1_440;
const VERSION_1: u8 = 0x40;
const PUSH: u8 = 0x01;
/// RGB, eight bits each.
const RGB888: u8 = 0x0b;
/// The controller's default output.
const DISPLAY: u8 = 1;

/// A connection to one controller.
pub(super) struct Ddp {
    socket: UdpSocket,
    sequence: u8,
}

impl Ddp {
    pub(super) async fn open(address: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Sends a frame. A packet that cannot be sent at once is dropped; the next frame follows soon.
    pub(super) fn send(&mut self, pixels: &[u8]) {
        self.sequence = self.sequence % 15 + 1;
        for packet in packets(pixels, self.sequence) {
            let result = if self.socket.try_send(&packet).is_ok() { "sent" } else { "lost" };
            metrics::counter!("tenure_control_ddp_packets_total", "result" => result).increment(1);
        }
    }
}

/// The packets of a frame. The last one has the push flag.
fn packets(pixels: &[u8], sequence: u8) -> impl Iterator<Item = Vec<u8>> {
    let count = pixels.len().div_ceil(MAX_DATA);
    pixels.chunks(MAX_DATA).enumerate().map(move |(i, data)| {
        let push = if i + 1 == count { PUSH } else { 0 };
        let mut packet = Vec::with_capacity(HEADER + data.len());
        packet.extend_from_slice(&[VERSION_1 | push, sequence, RGB888, DISPLAY]);
        packet.extend_from_slice(&((i * MAX_DATA) as u32).to_be_bytes());
        packet.extend_from_slice(&(data.len() as u16).to_be_bytes());
        packet.extend_from_slice(data);
        packet
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_strip_fits_one_packet_with_the_push_flag() {
        let packets: Vec<_> = packets(&[7; 960], 3).collect();
        assert_eq!(packets.len(), 1);
        assert_eq!(packets[0][..HEADER], [0x41, 3, 0x0b, 1, 0, 0, 0, 0, 0x03, 0xc0]);
        assert_eq!(packets[0].len(), HEADER + 960);
    }

    #[test]
    fn a_long_strip_needs_several_packets_and_the_last_has_the_push_flag() {
        let packets: Vec<_> = packets(&[7; 3_000], 15).collect();
        let heads: Vec<_> = packets.iter().map(|packet| packet[..HEADER].to_vec()).collect();
        assert_eq!(
            heads,
            [
                [0x40, 15, 0x0b, 1, 0, 0, 0, 0, 0x05, 0xa0],
                [0x40, 15, 0x0b, 1, 0, 0, 0x05, 0xa0, 0x05, 0xa0],
                [0x41, 15, 0x0b, 1, 0, 0, 0x0b, 0x40, 0, 0x78],
            ]
        );
    }
}
