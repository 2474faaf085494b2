//! The frames of a journal segment, and how they are read back.
//!
//! A frame is a header (length, checksum, epoch, number within the epoch) and rows. Frame 0 of an epoch has a preamble
//! before its rows. The checksum also covers the id of the store, which no client knows: a value that a client wrote
//! cannot pass for a frame.

use std::ops::RangeInclusive;

/// Length, checksum, epoch, number within the epoch.
pub(crate) const HEADER: usize = 4 + 4 + 8 + 8;

/// Id of the store, number of the opening, frames of the previous epoch.
pub(crate) const PREAMBLE: usize = 8 + 8 + 8;

/// Zeros are skipped in pieces of this size when a segment is searched.
const PIECE: usize = 4_096;

/// What frame 0 says about its store and the epoch before.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Preamble {
    /// The id of the store.
    pub(crate) id: u64,
    /// Which opening of the store began this epoch, counted from 1.
    pub(crate) opening: u64,
    /// How many frames the previous epoch has.
    pub(crate) previous_frames: u64,
}

/// The frames of one epoch that can be read from the beginning of a segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Epoch {
    pub(crate) epoch: u64,
    pub(crate) preamble: Preamble,
    /// The rows of each frame.
    pub(crate) batches: Vec<Vec<u8>>,
    /// Where the first frame begins that cannot be read.
    pub(crate) end: usize,
}

/// A valid frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) at: usize,
    pub(crate) epoch: u64,
    pub(crate) number: u64,
    pub(crate) payload: &'a [u8],
}

impl Frame<'_> {
    /// Where the next frame begins.
    pub(crate) const fn end(&self) -> usize {
        self.at + HEADER + self.payload.len()
    }

    /// The rows of the frame.
    pub(crate) fn rows(&self) -> &[u8] {
        if self.number == 0 { self.payload.get(PREAMBLE..).unwrap_or_default() } else { self.payload }
    }
}

/// Encodes a frame into `frame`.
pub(crate) fn encode(frame: &mut Vec<u8>, preamble: &Preamble, epoch: u64, number: u64, rows: &[u8]) {
    frame.clear();
    frame.extend_from_slice(&[0; 8]);
    frame.extend_from_slice(&epoch.to_le_bytes());
    frame.extend_from_slice(&number.to_le_bytes());
    if number == 0 {
        for field in [preamble.id, preamble.opening, preamble.previous_frames] {
            frame.extend_from_slice(&field.to_le_bytes());
        }
    }
    frame.extend_from_slice(rows);
    let len = (frame.len() - HEADER) as u32;
    let crc = checksum(preamble.id, &frame[8..]);
    frame[..4].copy_from_slice(&len.to_le_bytes());
    frame[4..8].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(id: u64, bytes: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&id.to_le_bytes());
    crc.update(bytes);
    crc.finalize()
}

/// The frame at an offset, if it is one of the store `id`.
pub(crate) fn frame_at(bytes: &[u8], at: usize, id: u64) -> Option<Frame<'_>> {
    let header = bytes.get(at..at.checked_add(HEADER)?)?;
    let len = u32::from_le_bytes(header[..4].try_into().ok()?) as usize;
    let payload = bytes.get(at + HEADER..(at + HEADER).checked_add(len)?)?;
    let (epoch, number) = (u64_at(header, 8)?, u64_at(header, 16)?);
    let valid = epoch != 0
        && (number != 0 || len >= PREAMBLE)
        && checksum(id, &bytes[at + 8..at + HEADER + len]).to_le_bytes() == header[4..8];
    valid.then_some(Frame { at, epoch, number, payload })
}

/// The preamble at the beginning of a segment, if its frame is valid under the id that it names.
pub(crate) fn preamble(bytes: &[u8]) -> Option<Preamble> {
    let field = |n: usize| u64_at(bytes, HEADER + 8 * n);
    let named = Preamble { id: field(0)?, opening: field(1)?, previous_frames: field(2)? };
    frame_at(bytes, 0, named.id).filter(|frame| frame.number == 0).map(|_| named)
}

/// Reads the frames of the store `id` from the beginning of a segment up to the first that is not the next one.
pub(crate) fn read(bytes: &[u8], id: u64) -> Option<Epoch> {
    let preamble = preamble(bytes).filter(|preamble| preamble.id == id)?;
    let epoch = frame_at(bytes, 0, id)?.epoch;
    let (mut batches, mut end) = (Vec::new(), 0);
    while let Some(frame) = frame_at(bytes, end, id)
        && (frame.epoch, frame.number) == (epoch, batches.len() as u64)
    {
        batches.push(frame.rows().to_vec());
        end = frame.end();
    }
    Some(Epoch { epoch, preamble, batches, end })
}

/// The first frame of one of these epochs at `from` or behind it.
pub(crate) fn find(bytes: &[u8], from: usize, id: u64, epochs: RangeInclusive<u64>) -> Option<Frame<'_>> {
    let mut at = from;
    while at + HEADER <= bytes.len() {
        // An epoch is never zero, so that a header is never within zeros.
        if bytes.get(at..at + PIECE).is_some_and(|piece| *piece == [0; PIECE]) {
            at += PIECE - HEADER;
            continue;
        }
        if u64_at(bytes, at + 8).is_some_and(|epoch| epochs.contains(&epoch))
            && let Some(frame) = frame_at(bytes, at, id)
        {
            return Some(frame);
        }
        at += 1;
    }
    None
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: Preamble = Preamble { id: 7, opening: 1, previous_frames: 3 };

    /// Frames one after the other, and where each begins.
    fn segment(epoch: u64, batches: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
        let (mut bytes, mut starts, mut frame) = (Vec::new(), Vec::new(), Vec::new());
        for (number, rows) in batches.iter().enumerate() {
            starts.push(bytes.len());
            encode(&mut frame, &STORE, epoch, number as u64, rows);
            bytes.extend_from_slice(&frame);
        }
        bytes.resize(bytes.len() + 3 * PIECE, 0);
        (bytes, starts)
    }

    #[test]
    fn frames_are_read_as_written() {
        let (bytes, _) = segment(5, &[b"", b"one", b"two"]);
        let found = read(&bytes, 7).unwrap();
        assert_eq!((found.epoch, found.preamble), (5, STORE));
        assert_eq!(found.batches, [b"".as_slice(), b"one", b"two"]);
        assert_eq!(bytes.len() - found.end, 3 * PIECE);
        assert_eq!(find(&bytes, found.end, 7, 1..=9), None);
    }

    #[test]
    fn a_damaged_byte_anywhere_ends_the_readable_part_and_later_frames_are_found() {
        let (whole, starts) = segment(5, &[b"", b"one", b"two", b"three"]);
        for damaged in 0..starts[3] {
            let mut bytes = whole.clone();
            bytes[damaged] ^= 1;
            let end = read(&bytes, 7).map_or(0, |found| found.end);
            assert_eq!(Some(&end), starts.iter().rev().find(|start| **start <= damaged), "{damaged}");
            let later = find(&bytes, end, 7, 5..=6).unwrap();
            assert!(later.at > damaged && starts.contains(&later.at), "{damaged}: {later:?}");
        }
    }

    #[test]
    fn a_torn_end_has_no_later_frame() {
        let (whole, starts) = segment(5, &[b"", b"one", b"two"]);
        for cut in starts[2]..starts[2] + HEADER + 3 {
            let mut bytes = whole.clone();
            bytes[cut..].fill(0);
            let found = read(&bytes, 7).unwrap();
            assert_eq!((found.batches.len(), found.end), (2, starts[2]), "{cut}");
            assert_eq!(find(&bytes, found.end, 7, 5..=6), None);
        }
    }

    #[test]
    fn frames_of_another_store_or_epoch_are_not_found() {
        let (bytes, starts) = segment(5, &[b"", b"one"]);
        assert_eq!(read(&bytes, 8), None);
        assert_eq!(find(&bytes, 0, 8, 1..=9), None);
        assert_eq!(find(&bytes, 1, 7, 6..=9), None);
        assert_eq!(find(&bytes, 1, 7, 5..=5).map(|frame| frame.at), Some(starts[1]));
    }

    #[test]
    fn a_frame_within_a_value_of_a_client_is_not_found() {
        let mut fake = Vec::new();
        encode(&mut fake, &Preamble { id: 0, ..STORE }, 5, 2, b"fake");
        let (mut bytes, starts) = segment(5, &[b"", &fake]);
        bytes[starts[1]] ^= 1;
        assert_eq!(find(&bytes, starts[1], 7, 5..=5), None);
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        proptest::proptest!(|(bytes: Vec<u8>, at in 0usize..64)| {
            let _ = (preamble(&bytes), read(&bytes, 0), find(&bytes, at, 0, 0..=u64::MAX), frame_at(&bytes, at, 0));
        });
    }
}
