//! Framing: a four-byte big-endian length, then the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::limits;

/// Length of the header.
pub const HEADER: usize = 4;

/// Why a frame cannot be decoded or encoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// The frame is empty.
    #[error("empty frame")]
    Empty,
    /// The frame exceeds the limit.
    #[error("frame of {0} bytes exceeds {max}", max = limits::FRAME)]
    TooLong(usize),
    /// The bytes do not decode as the expected message.
    #[error("frame does not contain a valid message")]
    Garbled,
}

/// Encodes a message as a frame.
pub fn encode(message: &impl Message) -> Result<Bytes, FrameError> {
    let len = checked(message.encoded_len())?;
    let mut frame = BytesMut::with_capacity(HEADER + len);
    frame.put_u32(len as u32);
    message.encode(&mut frame).map_err(|_| FrameError::Garbled)?;
    Ok(frame.freeze())
}

fn checked(len: usize) -> Result<usize, FrameError> {
    match len {
        0 => Err(FrameError::Empty),
        1..=limits::FRAME => Ok(len),
        _ => Err(FrameError::TooLong(len)),
    }
}

/// An incremental decoder. It buffers at most one frame and the bytes that arrived with its end. An error is final, because
/// nothing after it can be trusted.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Appends bytes from the stream. Drain all frames before the next call.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next complete frame without its header, or `None` until it is complete.
    pub fn frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let len = checked(u32::from_be_bytes(*header) as usize)?;
        if self.buffer.len() < HEADER + len {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }

    /// Returns the next message.
    pub fn message<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let Some(frame) = self.frame()? else { return Ok(None) };
        M::decode(frame).map(Some).map_err(|_| FrameError::Garbled)
    }

    /// Number of buffered bytes.
    pub fn kept(&self) -> usize {
        self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signaling::{ClientMessage, MuteRequest, client_message::Payload};

    fn mute(seq: u64) -> ClientMessage {
        let payload = Some(Payload::MuteRequest(MuteRequest { audio_muted: true, video_muted: false }));
        ClientMessage { payload, seq, ..ClientMessage::default() }
    }

    #[test]
    fn a_frame_matches_the_known_bytes() {
        let frame = encode(&mute(300)).unwrap();
        // Eight bytes: field 7 (mute_request) of length two, containing field 1 = true; field 22 (seq) = 300.
        assert_eq!(frame[..], [0, 0, 0, 8, 0x3a, 2, 0x08, 1, 0xb0, 0x01, 0xac, 0x02]);
    }

    #[test]
    fn frames_decode_at_any_chunk_size() {
        let sent: Vec<ClientMessage> = (1..=5).map(mute).collect();
        let stream: Vec<u8> = sent.iter().flat_map(|message| encode(message).unwrap()).collect();
        for cut in 1..=stream.len() {
            let (mut decoder, mut got) = (Decoder::default(), Vec::new());
            for piece in stream.chunks(cut) {
                decoder.push(piece);
                while let Some(message) = decoder.message::<ClientMessage>().unwrap() {
                    got.push(message);
                }
            }
            assert_eq!(got, sent, "chunks of {cut}");
            assert_eq!(decoder.kept(), 0);
        }
    }

    #[test]
    fn an_invalid_length_is_rejected_before_the_body_arrives() {
        for (header, error) in [
            ([0, 0, 0, 0], FrameError::Empty),
            ([0, 1, 0, 1], FrameError::TooLong(65_537)),
            ([0xff; 4], FrameError::TooLong(u32::MAX as usize)),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&header);
            assert_eq!(decoder.frame(), Err(error));
            assert_eq!(decoder.frame(), Err(error), "the error is final");
        }
        let mut decoder = Decoder::default();
        decoder.push(&[0, 1, 0, 0]);
        decoder.push(&vec![7; limits::FRAME]);
        assert_eq!(decoder.frame().unwrap().unwrap().len(), limits::FRAME, "the longest frame is accepted");
    }

    #[test]
    fn garbage_in_a_frame_is_an_error_and_not_a_message() {
        let mut decoder = Decoder::default();
        decoder.push(&[0, 0, 0, 2, 0xff, 0xff]);
        assert_eq!(decoder.message::<ClientMessage>(), Err(FrameError::Garbled));
    }

    #[test]
    fn a_message_that_is_too_long_or_empty_is_not_sent() {
        let long = ClientMessage { trace_state: "x".repeat(limits::FRAME), ..mute(1) };
        assert!(matches!(encode(&long), Err(FrameError::TooLong(_))));
        assert_eq!(encode(&ClientMessage::default()), Err(FrameError::Empty));
    }
}
