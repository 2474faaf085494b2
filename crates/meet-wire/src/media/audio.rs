//! Audio: one datagram per Opus packet.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Alias, MediaError, limits, varint};

const AUDIO: u8 = 0x02;
const KEEP_ALIVE: u8 = 0x03;

/// The level of silence. Lower levels are -dBov.
pub const SILENCE: u8 = 127;

/// A datagram.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Datagram {
    /// An audio packet.
    Audio(AudioPacket),
    /// Shows that the handler is alive when it has nothing else to send.
    KeepAlive,
    /// A type that this version does not know.
    Unknown(u8),
}

/// An Opus packet and what a handler needs to forward it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AudioPacket {
    /// The publication or subscription.
    pub alias: Alias,
    /// Counts the packets sent. A gap is a loss.
    pub sequence: u64,
    /// The time of the packet on the clock of the sender.
    pub timestamp_us: u64,
    /// The loudness: 0 to 126 is -dBov, 127 is silence.
    pub level: u8,
    /// The packet before, while the network loses packets; else empty.
    pub redundant: Bytes,
    /// The packet.
    pub payload: Bytes,
}

impl AudioPacket {
    /// Encodes a datagram.
    pub fn encode(&self) -> Result<Bytes, MediaError> {
        if self.level > SILENCE {
            return Err(MediaError::Malformed("level"));
        }
        let mut bytes = BytesMut::with_capacity(limits::DATAGRAM);
        bytes.put_u8(AUDIO);
        for number in [u64::from(self.alias.number()), self.sequence, self.timestamp_us] {
            varint::put(&mut bytes, number)?;
        }
        bytes.put_u8(self.level);
        varint::put(&mut bytes, self.redundant.len() as u64)?;
        if bytes.len() + self.redundant.len() + self.payload.len() > limits::DATAGRAM {
            return Err(MediaError::TooLarge("datagram"));
        }
        bytes.extend_from_slice(&self.redundant);
        bytes.extend_from_slice(&self.payload);
        Ok(bytes.freeze())
    }
}

/// An audio datagram with another alias; `from` is a datagram that [`decode`] accepted.
pub fn with_alias(from: &Bytes, alias: Alias) -> Result<Bytes, MediaError> {
    let rest = from.get(1..).ok_or(MediaError::Truncated)?;
    let (_, len) = varint::get(rest)?.ok_or(MediaError::Truncated)?;
    let mut bytes = BytesMut::with_capacity(from.len() + 2);
    bytes.put_u8(AUDIO);
    varint::put(&mut bytes, u64::from(alias.number()))?;
    bytes.extend_from_slice(rest.get(len..).ok_or(MediaError::Truncated)?);
    Ok(bytes.freeze())
}

/// The datagram that shows that a handler is alive.
pub const fn keep_alive() -> Bytes {
    Bytes::from_static(&[KEEP_ALIVE])
}

/// Decodes a datagram.
pub fn decode(datagram: &Bytes) -> Result<Datagram, MediaError> {
    if datagram.len() > limits::DATAGRAM {
        return Err(MediaError::TooLarge("datagram"));
    }
    match datagram.first() {
        None => Err(MediaError::Truncated),
        Some(&AUDIO) => decode_audio(datagram).map(Datagram::Audio),
        Some(&KEEP_ALIVE) if datagram.len() == 1 => Ok(Datagram::KeepAlive),
        Some(&KEEP_ALIVE) => Err(MediaError::Malformed("keep-alive")),
        Some(&kind) => Ok(Datagram::Unknown(kind)),
    }
}

fn decode_audio(datagram: &Bytes) -> Result<AudioPacket, MediaError> {
    let mut at = 1;
    let number = |at: &mut usize| -> Result<u64, MediaError> {
        let rest = datagram.get(*at..).unwrap_or_default();
        let (value, len) = varint::get(rest)?.ok_or(MediaError::Truncated)?;
        *at += len;
        Ok(value)
    };
    let alias = Alias::new(number(&mut at)?).ok_or(MediaError::Malformed("alias"))?;
    let (sequence, timestamp_us) = (number(&mut at)?, number(&mut at)?);
    let level = *datagram.get(at).ok_or(MediaError::Truncated)?;
    if level > SILENCE {
        return Err(MediaError::Malformed("level"));
    }
    at += 1;
    let redundant = number(&mut at)?;
    let end = usize::try_from(redundant)
        .ok()
        .and_then(|len| at.checked_add(len))
        .filter(|end| *end <= datagram.len())
        .ok_or(MediaError::Truncated)?;
    Ok(AudioPacket {
        alias,
        sequence,
        timestamp_us,
        level,
        redundant: datagram.slice(at..end),
        payload: datagram.slice(end..),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet() -> AudioPacket {
        AudioPacket {
            alias: Alias::new(5).unwrap(),
            sequence: 70,
            timestamp_us: 20_000,
            level: 30,
            redundant: Bytes::from_static(&[1, 2]),
            payload: Bytes::from_static(&[3, 4, 5]),
        }
    }

    #[test]
    fn an_audio_datagram_matches_the_known_bytes() {
        let bytes = packet().encode().unwrap();
        assert_eq!(bytes[..], [0x02, 0x05, 0x40, 0x46, 0x80, 0x00, 0x4e, 0x20, 30, 2, 1, 2, 3, 4, 5]);
        assert_eq!(decode(&bytes), Ok(Datagram::Audio(packet())));
    }

    #[test]
    fn an_alias_is_replaced_and_all_other_bytes_stay() {
        let bytes = packet().encode().unwrap();
        let other = with_alias(&bytes, Alias::new(300).unwrap()).unwrap();
        let expected = AudioPacket { alias: Alias::new(300).unwrap(), ..packet() };
        assert_eq!(decode(&other), Ok(Datagram::Audio(expected)));
        assert_eq!(other[3..], bytes[2..]);
    }

    #[test]
    fn a_keep_alive_is_one_byte_and_other_types_are_named() {
        assert_eq!(keep_alive()[..], [0x03]);
        assert_eq!(decode(&keep_alive()), Ok(Datagram::KeepAlive));
        assert_eq!(decode(&Bytes::from_static(&[3, 0])), Err(MediaError::Malformed("keep-alive")));
        assert_eq!(decode(&Bytes::from_static(&[9, 0])), Ok(Datagram::Unknown(9)));
        assert_eq!(decode(&Bytes::new()), Err(MediaError::Truncated));
    }

    #[test]
    fn a_datagram_that_is_cut_or_too_long_is_refused() {
        let bytes = packet().encode().unwrap();
        for cut in 0..bytes.len() - 3 {
            assert_eq!(decode(&bytes.slice(..cut)), Err(MediaError::Truncated), "{cut} bytes");
        }
        assert_eq!(decode(&vec![2; limits::DATAGRAM + 1].into()), Err(MediaError::TooLarge("datagram")));
        let long = AudioPacket { payload: vec![0; limits::DATAGRAM].into(), ..packet() };
        assert_eq!(long.encode(), Err(MediaError::TooLarge("datagram")));
    }

    #[test]
    fn an_invalid_alias_or_level_is_refused() {
        assert_eq!(decode(&Bytes::from_static(&[2, 0, 0, 0, 0, 0])), Err(MediaError::Malformed("alias")));
        assert_eq!(decode(&Bytes::from_static(&[2, 1, 0, 0, 128, 0])), Err(MediaError::Malformed("level")));
        assert!(AudioPacket { level: 128, ..packet() }.encode().is_err());
    }
}
