//! Messages on a stream: four bytes of big-endian length, then the message.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::limits;

/// The bytes of the length.
pub const HEADER: usize = 4;

/// Why a stream cannot be read on, or a message cannot be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FrameError {
    /// A frame of no bytes.
    #[error("an empty frame")]
    Empty,
    /// A frame beyond the bound.
    #[error("a frame of {0} bytes, {max} are the most", max = limits::FRAME)]
    TooLong(usize),
    /// Bytes that are not the message they should be.
    #[error("a frame that is no message")]
    Garbled,
}

/// A message as a frame.
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

/// Takes bytes as they come and gives frames. It keeps no more than one frame and what came with its end; after an error it stays
/// at the error, since nothing after it can be trusted.
#[derive(Debug, Default)]
pub struct Decoder {
    buffer: BytesMut,
}

impl Decoder {
    /// Takes what a stream gave. Ask for frames until there is none before the next.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame without its length; none while it has not come whole.
    pub fn frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        let Some(header) = self.buffer.first_chunk::<HEADER>() else { return Ok(None) };
        let len = checked(u32::from_be_bytes(*header) as usize)?;
        if self.buffer.len() < HEADER + len {
            return Ok(None);
        }
        self.buffer.advance(HEADER);
        Ok(Some(self.buffer.split_to(len).freeze()))
    }

    /// The next message.
    pub fn message<M: Message + Default>(&mut self) -> Result<Option<M>, FrameError> {
        let Some(frame) = self.frame()? else { return Ok(None) };
        M::decode(frame).map(Some).map_err(|_| FrameError::Garbled)
    }

    /// How much is kept.
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
    fn a_frame_is_these_bytes() {
        let frame = encode(&mute(300)).unwrap();
        // Eight bytes: field 7 (mute_request) of two, in it field 1 true; field 22 (seq) 300.
        assert_eq!(frame[..], [0, 0, 0, 8, 0x3a, 2, 0x08, 1, 0xb0, 0x01, 0xac, 0x02]);
    }

    #[test]
    fn frames_are_found_however_the_stream_is_cut() {
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
            assert_eq!(got, sent, "cut every {cut}");
            assert_eq!(decoder.kept(), 0);
        }
    }

    #[test]
    fn a_length_outside_the_bounds_is_refused_before_its_bytes_come() {
        for (header, error) in [
            ([0, 0, 0, 0], FrameError::Empty),
            ([0, 1, 0, 1], FrameError::TooLong(65_537)),
            ([0xff; 4], FrameError::TooLong(u32::MAX as usize)),
        ] {
            let mut decoder = Decoder::default();
            decoder.push(&header);
            assert_eq!(decoder.frame(), Err(error));
            assert_eq!(decoder.frame(), Err(error), "it stays at the error");
        }
        let mut decoder = Decoder::default();
        decoder.push(&[0, 1, 0, 0]);
        decoder.push(&vec![7; limits::FRAME]);
        assert_eq!(decoder.frame().unwrap().unwrap().len(), limits::FRAME, "the longest frame is taken");
    }

    #[test]
    fn garbage_in_a_frame_is_an_error_and_not_a_message() {
        let mut decoder = Decoder::default();
        decoder.push(&[0, 0, 0, 2, 0xff, 0xff]);
        assert_eq!(decoder.message::<ClientMessage>(), Err(FrameError::Garbled));
    }

    #[test]
    fn what_is_too_long_or_empty_is_not_sent() {
        let long = ClientMessage { trace_state: "x".repeat(limits::FRAME), ..mute(1) };
        assert!(matches!(encode(&long), Err(FrameError::TooLong(_))));
        assert_eq!(encode(&ClientMessage::default()), Err(FrameError::Empty));
    }
}
