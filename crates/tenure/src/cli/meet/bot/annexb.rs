//! H.264 in Annex B: splits a stream into access units at their delimiters.

use bytes::Bytes;

const SLICE_IDR: u8 = 5;
const DELIMITER: u8 = 9;

/// One encoded picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct AccessUnit {
    /// A decoder can begin here.
    pub(super) key: bool,
    pub(super) bytes: Bytes,
}

/// The access units of a stream in which each begins with a delimiter.
pub(super) fn access_units(stream: &Bytes) -> Vec<AccessUnit> {
    let (mut units, mut begin, mut key) = (Vec::new(), None, false);
    for (at, kind) in nal_units(stream) {
        if kind == DELIMITER {
            if let Some(begin) = begin.replace(at) {
                units.push(AccessUnit { key, bytes: stream.slice(begin..at) });
            }
            key = false;
        }
        key |= kind == SLICE_IDR;
    }
    if let Some(begin) = begin {
        units.push(AccessUnit { key, bytes: stream.slice(begin..) });
    }
    units
}

/// Where each NAL unit begins, with its start code, and its type.
fn nal_units(stream: &[u8]) -> impl Iterator<Item = (usize, u8)> + '_ {
    stream.windows(4).enumerate().filter(|(_, bytes)| bytes[..3] == [0, 0, 1]).map(|(at, bytes)| {
        // A start code may have a zero before it.
        let begin = if at > 0 && stream[at - 1] == 0 { at - 1 } else { at };
        (begin, bytes[3] & 0x1f)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_split_at_its_delimiters() {
        let stream = Bytes::from_static(&[
            0, 0, 0, 1, 9, 0x10, 0, 0, 0, 1, 0x67, 7, 0, 0, 1, 0x65, 1,
            2, // parameters and a key picture
            0, 0, 0, 1, 9, 0x30, 0, 0, 1, 0x41, 3, // another one
        ]);
        let units = access_units(&stream);
        assert_eq!(units.len(), 2);
        assert_eq!((units[0].key, units[0].bytes.len()), (true, 18));
        assert_eq!((units[1].key, units[1].bytes.len()), (false, 11));
        assert!(access_units(&Bytes::from_static(b"no stream")).is_empty());
    }
}
