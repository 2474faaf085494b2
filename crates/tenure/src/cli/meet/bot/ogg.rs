//! Opus in Ogg: the packets of the first stream.

use bytes::{Bytes, BytesMut};

const PAGE_HEADER: usize = 27;
/// The packets before the first one of audio: OpusHead and OpusTags.
const HEADERS: usize = 2;

/// The audio packets, or `None` if the file is not Ogg.
pub(super) fn opus_packets(mut file: &[u8]) -> Option<Vec<Bytes>> {
    let (mut packets, mut open) = (Vec::new(), BytesMut::new());
    while !file.is_empty() {
        let header = file.get(..PAGE_HEADER).filter(|header| header.starts_with(b"OggS"))?;
        let lacing = file.get(PAGE_HEADER..PAGE_HEADER + usize::from(header[26]))?;
        let mut body = file.get(PAGE_HEADER + lacing.len()..)?;
        for &length in lacing {
            let length = usize::from(length);
            open.extend_from_slice(body.get(..length)?);
            body = &body[length..];
            // A segment of 255 bytes is continued by the next one.
            if length < 255 {
                packets.push(open.split().freeze());
            }
        }
        file = body;
    }
    Some(packets.into_iter().skip(HEADERS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(lacing: &[u8], body: &[u8]) -> Vec<u8> {
        let mut page = b"OggS".to_vec();
        page.resize(26, 0);
        page.push(lacing.len() as u8);
        [&page, lacing, body].concat()
    }

    #[test]
    fn packets_are_joined_from_segments_and_pages() {
        let long = vec![7; 300];
        let file = [page(&[3, 4], b"oneaaaa"), page(&[2, 255], &[b"xx".as_slice(), &long[..255]].concat())];
        let file = [file.concat(), page(&[45], &long[255..])].concat();
        let packets = opus_packets(&file).unwrap();
        assert_eq!(packets, [Bytes::from_static(b"xx"), Bytes::from(long)]);
        assert_eq!(opus_packets(b"RIFF and so on, which is something else"), None);
    }
}
