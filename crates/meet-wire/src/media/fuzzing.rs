//! The body of the fuzz target for media.
#![expect(clippy::expect_used, reason = "a fuzz target panics when a property is violated")]

use bytes::Bytes;

use super::audio::{self, AudioPacket, Datagram};
use super::grant::{HandlerKey, HandlerKeys};
use super::group::{self, Frame, FrameFlags, FrameHeader, GroupDecoder, GroupHeader};
use super::message::MediaGrant;
use super::{Alias, MediaError, limits};
use crate::MeetingId;
use crate::binding::MasterSecret;

const NOW_MS: u64 = 1_700_000_000_000;

/// A stream of a group in any chunks, a datagram, or a grant. The first byte chooses, the second is the chunk size.
pub fn media(data: &[u8]) {
    let [kind, cut, rest @ ..] = data else { return };
    match kind % 3 {
        0 => stream(rest, usize::from(*cut).max(1)),
        1 => datagram(&Bytes::copy_from_slice(rest)),
        _ => grant(rest),
    }
}

fn stream(bytes: &[u8], cut: usize) {
    let whole = decode(bytes, bytes.len().max(1));
    let pieces = decode(bytes, cut);
    if let Ok((_, frames)) = &whole {
        assert!(frames.iter().all(|frame| frame.payload.len() == frame.header.len));
        assert!(frames.iter().all(|frame| frame.payload.len() <= limits::FRAME));
    }
    assert!(whole == pieces, "chunking changed the result");
}

fn decode(bytes: &[u8], cut: usize) -> Result<(Option<GroupHeader>, Vec<Frame>), MediaError> {
    let (mut decoder, mut frames) = (GroupDecoder::default(), Vec::new());
    for piece in bytes.chunks(cut) {
        decoder.push(piece)?;
        while let Some(frame) = decoder.next_frame()? {
            frames.push(frame);
        }
    }
    decoder.finish()?;
    Ok((decoder.header().copied(), frames))
}

fn datagram(bytes: &Bytes) {
    let Ok(Datagram::Audio(packet)) = audio::decode(bytes) else { return };
    let sent = packet.encode().expect("a decoded packet is not longer in its shortest form");
    assert!(audio::decode(&sent) == Ok(Datagram::Audio(packet)), "the packet changed");
}

fn grant(bytes: &[u8]) {
    let (keys, meeting) = keys();
    if let Ok(grant) = keys.open(bytes, &meeting, "mh-1", NOW_MS) {
        assert!(grant == sealed_grant(), "a forged grant");
    }
}

fn keys() -> (HandlerKeys, MeetingId) {
    let meeting = MeetingId::parse("abc").expect("a name");
    let secret = MasterSecret::new(vec![7; 32]).expect("a secret");
    (HandlerKeys { current: HandlerKey::derive(&secret, &meeting, "mh-1"), previous: None }, meeting)
}

fn sealed_grant() -> MediaGrant {
    MediaGrant {
        meeting_id: "abc".into(),
        handler_id: "mh-1".into(),
        issued_at_ms: NOW_MS,
        expires_at_ms: NOW_MS + 1_000,
        grant_id: vec![5; 16].into(),
        ..MediaGrant::default()
    }
}

/// A valid input of each kind.
pub fn media_seeds() -> Vec<Vec<u8>> {
    let alias = Alias::new(5).expect("an alias");
    let header = GroupHeader { alias, rendition: 1, group: 2, timestamp_us: 3 };
    let flags = FrameFlags { key: true, ..FrameFlags::default() };
    let mut stream = group::encode_header(&header).expect("a header").to_vec();
    stream.extend(
        group::encode_frame_header(&FrameHeader { len: 2, delta_us: 0, flags }).expect("a frame header"),
    );
    stream.extend([1, 2]);
    let packet = AudioPacket {
        alias,
        sequence: 1,
        timestamp_us: 20_000,
        level: 30,
        redundant: Bytes::from_static(&[1]),
        payload: Bytes::from_static(&[2, 3]),
    };
    let grant = keys().0.current.seal(&sealed_grant());
    [(0, stream), (1, packet.encode().expect("a packet").to_vec()), (2, grant.to_vec())]
        .map(|(kind, bytes)| [vec![kind, 1], bytes].concat())
        .to_vec()
}
