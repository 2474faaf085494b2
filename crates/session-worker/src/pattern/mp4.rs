//! Just enough of fragmented MP4 to move a segment in time.

use std::collections::BTreeMap;
use std::ops::Range;

/// One box: its kind, and where its contents are.
struct Found {
    kind: [u8; 4],
    body: Range<usize>,
}

/// The boxes in a range; none when the bytes are no boxes.
fn boxes(bytes: &[u8], range: Range<usize>) -> Option<Vec<Found>> {
    let mut found = Vec::new();
    let mut at = range.start;
    while at < range.end {
        let size = u32_at(bytes, at)? as usize;
        let kind = bytes.get(at + 4..at + 8)?.try_into().ok()?;
        let end = at.checked_add(size).filter(|end| size >= 8 && *end <= range.end)?;
        found.push(Found { kind, body: at + 8..end });
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

/// Adds to a number of four or eight bytes, as its version says.
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

/// The units per second of every track of an initialisation segment.
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

/// The same segment with another number and moved on in time, by so many units for each track.
pub(super) fn moved(segment: &[u8], sequence: u32, by: impl Fn(u32) -> Option<u64>) -> Option<Vec<u8>> {
    let mut moved = segment.to_vec();
    let all = 0..segment.len();
    for sidx in children(segment, all.clone(), b"sidx")? {
        let long = segment.get(sidx.start) == Some(&1);
        add(&mut moved, sidx.start + 12, long, by(u32_at(segment, sidx.start + 4)?)?)?;
    }
    for moof in children(segment, all, b"moof")? {
        let mfhd = child(segment, moof.clone(), b"mfhd")?;
        moved.get_mut(mfhd.start + 4..mfhd.start + 8)?.copy_from_slice(&sequence.to_be_bytes());
        for traf in children(segment, moof, b"traf")? {
            let track = u32_at(segment, child(segment, traf.clone(), b"tfhd")?.start + 4)?;
            let tfdt = child(segment, traf, b"tfdt")?;
            let long = segment.get(tfdt.start) == Some(&1);
            add(&mut moved, tfdt.start + 4, long, by(track)?)?;
        }
    }
    Some(moved)
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
    fn every_track_tells_its_units() {
        assert_eq!(timescales(INIT).unwrap(), BTreeMap::from([(1, 15_360), (2, 48_000)]));
        assert_eq!(timescales(&INIT[..100]), None);
        assert_eq!(timescales(b""), None);
    }

    #[test]
    fn a_segment_moves_in_time_and_stays_as_it_is() {
        let before = starts(SECOND);
        let later = moved(SECOND, 77, |track| Some(u64::from(track) * 1_000)).unwrap();
        let expected: Vec<_> =
            before.iter().map(|(track, at)| (*track, at + u64::from(*track) * 1_000)).collect();
        assert_eq!(starts(&later), expected);
        assert_eq!(later.len(), SECOND.len());
        let changed = SECOND.iter().zip(&later).filter(|(a, b)| a != b).count();
        assert!(changed <= 4 * 8 + 4, "{changed} bytes");
        assert_eq!(moved(SECOND, 1, |_| Some(0)).map(|same| starts(&same)), Some(before));
    }

    #[test]
    fn what_is_no_segment_is_refused_and_never_read_beyond() {
        assert_eq!(moved(b"not a box at all", 1, |_| Some(0)), None);
        for cut in 1..200 {
            drop(moved(&SECOND[..cut], 1, |_| Some(0)));
        }
        let mut endless = SECOND.to_vec();
        endless[..4].copy_from_slice(&0_u32.to_be_bytes());
        assert_eq!(moved(&endless, 1, |_| Some(0)), None);
    }
}
