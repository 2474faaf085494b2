//! Variable-length integers of QUIC (RFC 9000, section 16), limited to what JavaScript counts exactly.

use bytes::BufMut;

use super::MediaError;

/// The greatest number: 2^53 - 1.
pub(super) const MAX: u64 = (1 << 53) - 1;

/// Appends a number in its shortest form.
pub(super) fn put(buffer: &mut impl BufMut, value: u64) -> Result<(), MediaError> {
    match value {
        0..0x40 => buffer.put_u8(value as u8),
        0x40..0x4000 => buffer.put_u16(value as u16 | 0x4000),
        0x4000..0x4000_0000 => buffer.put_u32(value as u32 | 0x8000_0000),
        0x4000_0000..=MAX => buffer.put_u64(value | 0xc000_0000_0000_0000),
        _ => return Err(MediaError::Malformed("number")),
    }
    Ok(())
}

/// Reads a number of any length from the front of `bytes` and returns it with its length, or `None` until it is
/// complete.
pub(super) fn get(bytes: &[u8]) -> Result<Option<(u64, usize)>, MediaError> {
    let Some(first) = bytes.first() else { return Ok(None) };
    let len = 1 << (first >> 6);
    let Some(rest) = bytes.get(1..len) else { return Ok(None) };
    let value = rest.iter().fold(u64::from(first & 0x3f), |value, byte| value << 8 | u64::from(*byte));
    if value > MAX {
        return Err(MediaError::Malformed("number"));
    }
    Ok(Some((value, len)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_match_the_examples_of_the_rfc() {
        for (bytes, value) in
            [(&[0x25][..], 37), (&[0x7b, 0xbd], 15_293), (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333)]
        {
            assert_eq!(get(bytes), Ok(Some((value, bytes.len()))));
            let mut written = Vec::new();
            put(&mut written, value).unwrap();
            assert_eq!(written, bytes);
        }
        assert_eq!(get(&[0x40, 0x25]), Ok(Some((37, 2))), "a longer form is accepted");
    }

    #[test]
    fn numbers_are_read_back_at_every_boundary() {
        for value in [0, 63, 64, 16_383, 16_384, (1 << 30) - 1, 1 << 30, MAX] {
            let mut bytes = Vec::new();
            put(&mut bytes, value).unwrap();
            assert_eq!(get(&bytes), Ok(Some((value, bytes.len()))));
            for cut in 0..bytes.len() {
                assert_eq!(get(&bytes[..cut]), Ok(None), "incomplete");
            }
        }
    }

    #[test]
    fn a_number_above_the_greatest_is_refused() {
        assert!(put(&mut Vec::new(), MAX + 1).is_err());
        assert!(get(&[0xff; 8]).is_err());
    }
}
