//! Shifts the timestamps of fragmented MP4 segments.

use std::collections::BTreeMap;
use std::ops::Range;

/// An MP4 box: its type and the range of its contents.
struct Mp4Box {
    kind: [u8; 4],
    body: Range<usize>,
}

/// Parses the boxes in a range; `None` if they are malformed.
fn boxes(bytes: &[u8], range: Range<usize>) -> Option<Vec<Mp4Box>> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let size = u32_at(bytes, at)? as usize;
        let kind = bytes.get(at + 4..at + 8)?.try_into().ok()?;
        let end = at.checked_add(size).filter(|end| size >= 8 && *end <= range.end)?;
        found.push(Mp4Box { kind, body: at + 8..end });
        at = end;
    }
    Some(found)
}

fn children(bytes: &[u8], range: Range<usize>, kind: &[u8; 4]) -> Option<Vec<Range<usize>>> {
    let all = boxes(bytes, range)?;
    Some(all.into_iter().filter(|found| found.kind == *kind).map(|found| found.body).collect())
}

fn child(bytes: &[u8], range: Range<usize>, kind: &[u8; 4]) -> Option<Range<usize>> {
    children(bytes, range, kind)?.into_iter().next()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Adds to a big-endian number of eight bytes (`long`) or four.
fn add(bytes: &mut [u8], at: usize, long: bool, by: u64) -> Option<()> {
    if long {
        let there = bytes.get_mut(at..at + 8)?;
        let number = u64::from_be_bytes((&*there).try_into().ok()?).checked_add(by)?;
        there.copy_from_slice(&number.to_be_bytes());
    } else {
        let number = u32::try_from(u64::from(u32_at(bytes, at)?).checked_add(by)?).ok()?;
        bytes.get_mut(at..at + 4)?.copy_from_slice(&number.to_be_bytes());
    }
    Some(())
}

/// Reads the timescale of every track of an initialization segment.
pub(super) fn timescales(init: &[u8]) -> Option<BTreeMap<u32, u32>> {
    let moov = child(init, 0..init.len(), b"moov")?;
    let mut scales = BTreeMap::new();
    for trak in children(init, moov, b"trak")? {
        let tkhd = child(init, trak.clone(), b"tkhd")?;
        let mdhd = child(init, child(init, trak, b"mdia")?, b"mdhd")?;
        let after = |body: &Range<usize>| body.start + if init.get(body.start) == Some(&1) { 20 } else { 12 };
        scales.insert(u32_at(init, after(&tkhd))?, u32_at(init, after(&mdhd))?);
    }
    Some(scales)
}

/// Returns the segment with another sequence number and its timestamps shifted by the given units per track.
pub(super) fn shift_segment(
    segment: &[u8],
    sequence: u32,
    by: impl Fn(u32) -> Option<u64>,
) -> Option<Vec<u8>> {
    let mut shifted = segment.to_vec();
    let all = 0..segment.len();
    for sidx in children(segment, all.clone(), b"sidx")? {
        let long = segment.get(sidx.start) == Some(&1);
        add(&mut shifted, sidx.start + 12, long, by(u32_at(segment, sidx.start + 4)?)?)?;
    }
    for moof in children(segment, all, b"moof")? {
        let mfhd = child(segment, moof.clone(), b"mfhd")?;
        shifted.get_mut(mfhd.start + 4..mfhd.start + 8)?.copy_from_slice(&sequence.to_be_bytes());
        for traf in children(segment, moof, b"traf")? {
            let track = u32_at(segment, child(segment, traf.clone(), b"tfhd")?.start + 4)?;
            let tfdt = child(segment, traf, b"tfdt")?;
            let long = segment.get(tfdt.start) == Some(&1);
            add(&mut shifted, tfdt.start + 4, long, by(track)?)?;
        }
    }
    Some(shifted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &[u8] = include_bytes!("../../assets/pattern/init.mp4");
    const SECOND: &[u8] = include_bytes!("../../assets/pattern/seg-1.m4s");

    fn starts(segment: &[u8]) -> Vec<(u32, u64)> {
        let moof = child(segment, 0..segment.len(), b"moof").unwrap();
        let trafs = children(segment, moof, b"traf").unwrap();
        let start = |traf: Range<usize>| {
            let track = u32_at(segment, child(segment, traf.clone(), b"tfhd").unwrap().start + 4).unwrap();
            let tfdt = child(segment, traf, b"tfdt").unwrap().start;
            (track, u64::from_be_bytes(segment[tfdt + 4..tfdt + 12].try_into().unwrap()))
        };
        trafs.into_iter().map(start).collect()
    }

    #[test]
    fn timescales_are_read_for_every_track() {
        assert_eq!(timescales(INIT).unwrap(), BTreeMap::from([(1, 15_360), (2, 48_000)]));
        assert_eq!(timescales(&INIT[..100]), None);
        assert_eq!(timescales(b""), None);
    }

    #[test]
    fn only_timestamps_and_the_sequence_number_change() {
        let before = starts(SECOND);
        let later = shift_segment(SECOND, 77, |track| Some(u64::from(track) * 1_000)).unwrap();
        let expected: Vec<_> =
            before.iter().map(|(track, at)| (*track, at + u64::from(*track) * 1_000)).collect();
        assert_eq!(starts(&later), expected);
        assert_eq!(later.len(), SECOND.len());
        let changed = SECOND.iter().zip(&later).filter(|(a, b)| a != b).count();
        assert!(changed <= 4 * 8 + 4, "{changed} bytes");
        assert_eq!(shift_segment(SECOND, 1, |_| Some(0)).map(|same| starts(&same)), Some(before));
    }

    #[test]
    fn malformed_segments_are_rejected_without_reading_out_of_bounds() {
        assert_eq!(shift_segment(b"not a box at all", 1, |_| Some(0)), None);
        for cut in 1..200 {
            drop(shift_segment(&SECOND[..cut], 1, |_| Some(0)));
        }
        let mut endless = SECOND.to_vec();
        endless[..4].copy_from_slice(&0_u32.to_be_bytes());
        assert_eq!(shift_segment(&endless, 1, |_| Some(0)), None);
    }
}
