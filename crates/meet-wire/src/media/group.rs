//! Video and screen sharing: one unidirectional stream per (alias, rendition, group).
//!
//! A stream is a [`GroupHeader`], then frames: a [`FrameHeader`] and its payload each. The end of the stream ends the
//! group. [`GroupParser`] passes payloads on as they arrive, for a handler that forwards them before a frame is
//! complete. [`GroupDecoder`] collects whole frames, for a client.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Alias, MediaError, limits, varint};

/// The type of a stream that carries a group, its first number.
pub const GROUP_STREAM: u64 = 0x01;

/// Longest header of a group or a frame: five numbers of eight bytes.
const HEADER_MAX: usize = 40;
/// Headroom for the numbers before a payload.
const FRAME_HEADER_MAX: usize = 17;

/// What a stream begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupHeader {
    /// The publication or subscription.
    pub alias: Alias,
    /// The index of the rendition; 0 is the lowest.
    pub rendition: u8,
    /// The number of the group. It rises within a publication.
    pub group: u64,
    /// The time of the group on the clock of the sender.
    pub timestamp_us: u64,
}

/// What a frame begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameHeader {
    /// Length of the payload, in bytes.
    pub len: usize,
    /// Time since the header's timestamp.
    pub delta_us: u64,
    /// What the frame is.
    pub flags: FrameFlags,
}

/// The flags of a frame. Bits without a meaning are written as zero and ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FrameFlags {
    /// A decoder can begin here.
    pub key: bool,
    /// No other frame depends on it.
    pub discardable: bool,
    /// The temporal layer, 0 to 3.
    pub temporal: u8,
}

impl FrameFlags {
    const fn to_byte(self) -> u8 {
        self.key as u8 | (self.discardable as u8) << 1 | (self.temporal & 3) << 2
    }

    const fn from_byte(byte: u8) -> Self {
        Self { key: byte & 1 != 0, discardable: byte & 2 != 0, temporal: byte >> 2 & 3 }
    }
}

/// Encodes the header of a group.
pub fn encode_header(header: &GroupHeader) -> Result<Bytes, MediaError> {
    let mut bytes = BytesMut::with_capacity(HEADER_MAX);
    let numbers = [
        GROUP_STREAM,
        u64::from(header.alias.number()),
        u64::from(header.rendition),
        header.group,
        header.timestamp_us,
    ];
    for number in numbers {
        varint::put(&mut bytes, number)?;
    }
    Ok(bytes.freeze())
}

/// Encodes the header of a group with the alias of a subscriber; `rest` is [`GroupParser::raw_header`].
pub fn encode_header_from(alias: Alias, rest: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(HEADER_MAX);
    // Both numbers are far below the greatest one.
    let _fits = varint::put(&mut bytes, GROUP_STREAM);
    let _fits = varint::put(&mut bytes, u64::from(alias.number()));
    bytes.extend_from_slice(rest);
    bytes.freeze()
}

/// Encodes the header of a frame. Its payload follows as it is.
pub fn encode_frame_header(header: &FrameHeader) -> Result<Bytes, MediaError> {
    if header.len > limits::FRAME {
        return Err(MediaError::TooLarge("frame"));
    }
    let mut bytes = BytesMut::with_capacity(FRAME_HEADER_MAX);
    varint::put(&mut bytes, header.len as u64)?;
    varint::put(&mut bytes, header.delta_us)?;
    bytes.put_u8(header.flags.to_byte());
    Ok(bytes.freeze())
}

/// A part of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part {
    /// The stream carries a group.
    Group(GroupHeader),
    /// The stream has another type. Nothing more is read of it.
    Unknown(u64),
    /// A frame begins.
    Frame(FrameHeader),
    /// The next bytes of its payload.
    Payload {
        /// The bytes.
        bytes: Bytes,
        /// Whether they complete the frame.
        last: bool,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Expect {
    Header,
    Frame,
    Payload(usize),
    Nothing,
}

/// Reads a stream part by part and holds it to the limits. An error is final.
#[derive(Debug)]
pub struct GroupParser {
    input: BytesMut,
    expect: Expect,
    total: usize,
    first_delta_us: Option<u64>,
    raw: Bytes,
}

impl Default for GroupParser {
    fn default() -> Self {
        Self {
            input: BytesMut::new(),
            expect: Expect::Header,
            total: 0,
            first_delta_us: None,
            raw: Bytes::new(),
        }
    }
}

impl GroupParser {
    /// Appends bytes from the stream. Take all parts before the next call.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        self.total = self.total.saturating_add(bytes.len());
        if self.total > limits::GROUP {
            return Err(MediaError::TooLarge("group"));
        }
        if self.expect != Expect::Nothing {
            self.input.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Returns the next part, or `None` until more bytes arrive.
    pub fn next_part(&mut self) -> Result<Option<Part>, MediaError> {
        match self.expect {
            Expect::Header => self.header(),
            Expect::Frame => self.frame(),
            Expect::Payload(left) => Ok(self.payload(left)),
            Expect::Nothing => Ok(None),
        }
    }

    /// The bytes of the last header as they arrived, so that they can be passed on unchanged: of a frame the whole
    /// header, of a group what follows the alias.
    pub fn raw_header(&self) -> Bytes {
        self.raw.clone()
    }

    /// Checks that the stream may end here.
    pub fn finish(&self) -> Result<(), MediaError> {
        let complete = match self.expect {
            Expect::Frame => self.input.is_empty() && self.first_delta_us.is_some(),
            Expect::Nothing => true,
            Expect::Header | Expect::Payload(_) => false,
        };
        complete.then_some(()).ok_or(MediaError::Truncated)
    }

    fn header(&mut self) -> Result<Option<Part>, MediaError> {
        let mut reader = Reader { bytes: &self.input, used: 0 };
        let Some(kind) = reader.number()? else { return Ok(None) };
        if kind != GROUP_STREAM {
            self.input = BytesMut::new();
            self.expect = Expect::Nothing;
            return Ok(Some(Part::Unknown(kind)));
        }
        let Some(alias) = reader.number()? else { return Ok(None) };
        let mut numbers = [0; 3];
        let after_alias = reader.used;
        for number in &mut numbers {
            let Some(value) = reader.number()? else { return Ok(None) };
            *number = value;
        }
        let used = reader.used;
        let [rendition, group, timestamp_us] = numbers;
        let alias = Alias::new(alias).ok_or(MediaError::Malformed("alias"))?;
        let rendition = u8::try_from(rendition).map_err(|_| MediaError::Malformed("rendition"))?;
        self.raw = self.input.split_to(used).freeze().slice(after_alias..);
        self.expect = Expect::Frame;
        Ok(Some(Part::Group(GroupHeader { alias, rendition, group, timestamp_us })))
    }

    fn frame(&mut self) -> Result<Option<Part>, MediaError> {
        let mut reader = Reader { bytes: &self.input, used: 0 };
        let Some(len) = reader.number()? else { return Ok(None) };
        // Refused before the payload arrives.
        if len > limits::FRAME as u64 {
            return Err(MediaError::TooLarge("frame"));
        }
        let Some(delta_us) = reader.number()? else { return Ok(None) };
        let Some(flags) = reader.byte() else { return Ok(None) };
        let used = reader.used;
        let header = FrameHeader { len: len as usize, delta_us, flags: FrameFlags::from_byte(flags) };
        if self.first_delta_us.is_none() && !header.flags.key {
            return Err(MediaError::NoKeyframe);
        }
        let first = *self.first_delta_us.get_or_insert(delta_us);
        if delta_us.saturating_sub(first) > limits::GROUP_SPAN.as_micros() as u64 {
            return Err(MediaError::TooLarge("group's time"));
        }
        self.raw = self.input.split_to(used).freeze();
        self.expect = Expect::Payload(header.len);
        Ok(Some(Part::Frame(header)))
    }

    fn payload(&mut self, left: usize) -> Option<Part> {
        let len = left.min(self.input.len());
        if len == 0 && left > 0 {
            return None;
        }
        let bytes = self.input.split_to(len).freeze();
        let last = len == left;
        self.expect = if last { Expect::Frame } else { Expect::Payload(left - len) };
        Some(Part::Payload { bytes, last })
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl Reader<'_> {
    fn number(&mut self) -> Result<Option<u64>, MediaError> {
        let Some((value, len)) = varint::get(self.bytes.get(self.used..).unwrap_or_default())? else {
            return Ok(None);
        };
        self.used += len;
        Ok(Some(value))
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.used)?;
        self.used += 1;
        Some(byte)
    }
}

/// A whole frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// What it begins with.
    pub header: FrameHeader,
    /// Its payload.
    pub payload: Bytes,
}

/// Reads a stream frame by frame.
#[derive(Debug, Default)]
pub struct GroupDecoder {
    parser: GroupParser,
    header: Option<GroupHeader>,
    frame: Option<(FrameHeader, BytesMut)>,
}

impl GroupDecoder {
    /// Appends bytes from the stream. Take all frames before the next call.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        self.parser.push(bytes)
    }

    /// The header of the group, once it was read.
    pub const fn header(&self) -> Option<&GroupHeader> {
        self.header.as_ref()
    }

    /// Returns the next whole frame, or `None` until more bytes arrive. A stream of another type is an error.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, MediaError> {
        while let Some(part) = self.parser.next_part()? {
            match part {
                Part::Unknown(_) => return Err(MediaError::Malformed("stream type")),
                Part::Group(header) => self.header = Some(header),
                // Not sized by the header: a peer that announces a long frame must send it first.
                Part::Frame(header) => self.frame = Some((header, BytesMut::new())),
                Part::Payload { bytes, last } => {
                    if let Some((_, payload)) = &mut self.frame {
                        payload.extend_from_slice(&bytes);
                    }
                    if last && let Some((header, payload)) = self.frame.take() {
                        return Ok(Some(Frame { header, payload: payload.freeze() }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Checks that the stream may end here.
    pub fn finish(&self) -> Result<(), MediaError> {
        self.parser.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> GroupHeader {
        GroupHeader { alias: Alias::new(300).unwrap(), rendition: 2, group: 7, timestamp_us: 1_000_000 }
    }

    fn frame(len: usize, delta_us: u64, key: bool) -> Frame {
        let flags = FrameFlags { key, discardable: !key, temporal: u8::from(!key) };
        Frame { header: FrameHeader { len, delta_us, flags }, payload: vec![len as u8; len].into() }
    }

    fn stream(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = encode_header(&header()).unwrap().to_vec();
        for frame in frames {
            bytes.extend_from_slice(&encode_frame_header(&frame.header).unwrap());
            bytes.extend_from_slice(&frame.payload);
        }
        bytes
    }

    fn decode(bytes: &[u8], cut: usize) -> Result<Vec<Frame>, MediaError> {
        let (mut decoder, mut frames) = (GroupDecoder::default(), Vec::new());
        for piece in bytes.chunks(cut) {
            decoder.push(piece)?;
            while let Some(frame) = decoder.next_frame()? {
                frames.push(frame);
            }
        }
        decoder.finish()?;
        Ok(frames)
    }

    #[test]
    fn a_group_matches_the_known_bytes() {
        let bytes = stream(&[frame(2, 0, true), frame(1, 33_333, false)]);
        assert_eq!(
            bytes,
            [
                0x01, 0x41, 0x2c, 0x02, 0x07, 0x80, 0x0f, 0x42, 0x40, // header
                0x02, 0x00, 0x01, 2, 2, // key frame
                0x01, 0x80, 0x00, 0x82, 0x35, 0x06, 1, // discardable, temporal layer 1
            ]
        );
    }

    #[test]
    fn frames_decode_at_any_chunk_size() {
        let frames = [frame(5, 0, true), frame(0, 10, false), frame(70, 20, false)];
        let bytes = stream(&frames);
        for cut in 1..=bytes.len() {
            assert_eq!(decode(&bytes, cut).unwrap(), frames, "chunks of {cut}");
        }
    }

    #[test]
    fn a_payload_is_passed_on_before_its_frame_is_complete() {
        let bytes = stream(&[frame(5, 0, true)]);
        let mut parser = GroupParser::default();
        parser.push(&bytes[..bytes.len() - 3]).unwrap();
        assert_eq!(parser.next_part(), Ok(Some(Part::Group(header()))));
        assert!(matches!(parser.next_part(), Ok(Some(Part::Frame(_)))));
        let first = Part::Payload { bytes: Bytes::from_static(&[5, 5]), last: false };
        assert_eq!(parser.next_part(), Ok(Some(first)));
        assert_eq!(parser.next_part(), Ok(None));
        parser.push(&bytes[bytes.len() - 3..]).unwrap();
        assert!(matches!(parser.next_part(), Ok(Some(Part::Payload { last: true, .. }))));
    }

    #[test]
    fn headers_are_passed_on_as_they_arrived_but_for_the_alias() {
        // The timestamp and the length are longer than they must be.
        let long = [0x01, 0x41, 0x2c, 0x02, 0x07, 0x40, 0x05, 0x40, 0x01, 0x00, 0x01, 9];
        let mut parser = GroupParser::default();
        parser.push(&long).unwrap();
        parser.next_part().unwrap();
        let alias = Alias::new(9).unwrap();
        assert_eq!(encode_header_from(alias, &parser.raw_header())[..], [0x01, 0x09, 0x02, 0x07, 0x40, 0x05]);
        parser.next_part().unwrap();
        assert_eq!(parser.raw_header()[..], [0x40, 0x01, 0x00, 0x01]);
    }

    #[test]
    fn a_stream_that_ends_inside_a_frame_is_an_error() {
        let bytes = stream(&[frame(5, 0, true)]);
        for cut in 1..bytes.len() {
            assert_eq!(decode(&bytes[..cut], cut), Err(MediaError::Truncated), "{cut} bytes");
        }
    }

    #[test]
    fn a_group_begins_with_a_key_frame() {
        assert_eq!(decode(&stream(&[frame(5, 0, false)]), 64), Err(MediaError::NoKeyframe));
    }

    #[test]
    fn a_long_frame_is_refused_before_its_payload_arrives() {
        let mut bytes = encode_header(&header()).unwrap().to_vec();
        bytes.extend_from_slice(&[0x80, 0x10, 0x00, 0x01]);
        assert_eq!(decode(&bytes, 64), Err(MediaError::TooLarge("frame")));
        let long = FrameHeader { len: limits::FRAME + 1, ..frame(0, 0, true).header };
        assert_eq!(encode_frame_header(&long), Err(MediaError::TooLarge("frame")));
    }

    #[test]
    fn a_group_is_limited_in_bytes_and_time() {
        let large: Vec<Frame> = (0..9).map(|n| frame(limits::FRAME, n, n == 0)).collect();
        assert_eq!(decode(&stream(&large), 65_536), Err(MediaError::TooLarge("group")));
        let span = limits::GROUP_SPAN.as_micros() as u64;
        assert!(decode(&stream(&[frame(1, 5, true), frame(1, 5 + span, false)]), 64).is_ok());
        let late = stream(&[frame(1, 5, true), frame(1, 6 + span, false)]);
        assert_eq!(decode(&late, 64), Err(MediaError::TooLarge("group's time")));
    }

    #[test]
    fn a_stream_of_another_type_is_recognized_and_not_buffered() {
        let mut parser = GroupParser::default();
        parser.push(&[0x05, 1, 2, 3]).unwrap();
        assert_eq!(parser.next_part(), Ok(Some(Part::Unknown(5))));
        parser.push(&[9; 1_000]).unwrap();
        assert_eq!(parser.next_part(), Ok(None));
        assert!(parser.input.is_empty());
    }

    #[test]
    fn unknown_flags_are_ignored() {
        let flags = FrameFlags::from_byte(0b1111_1101);
        assert_eq!(flags, FrameFlags { key: true, discardable: false, temporal: 3 });
        assert_eq!(flags.to_byte(), 0b1101);
    }
}
