//! The sign of life: when the store was last known to run, so that a restart knows what holders may believe.

use std::io;

use lease::Tick;

use super::medium::Medium;

const SIZE: usize = 64;
/// Bytes that the file has room for.
pub(crate) const FILE: u64 = SIZE as u64;

/// The file with the sign of life. It is written without sync: it must survive the process, not the machine,
/// and a machine that restarted has another boot id.
pub(crate) struct Stamp {
    medium: Box<dyn Medium>,
    boot: [u8; 36],
}

impl Stamp {
    pub(crate) fn new(medium: Box<dyn Medium>, boot: &str) -> Self {
        let mut id = [0; 36];
        let n = boot.len().min(id.len());
        id[..n].copy_from_slice(&boot.as_bytes()[..n]);
        Self { medium, boot: id }
    }

    /// When the store last ran, if the machine has not restarted since.
    pub(crate) fn last(&mut self) -> io::Result<Option<Tick>> {
        let bytes = self.medium.read()?;
        let whole = bytes.len() >= SIZE && crc32fast::hash(&bytes[..44]).to_le_bytes() == bytes[44..48];
        if !whole || bytes[..36] != self.boot {
            return Ok(None);
        }
        let mut nanos = [0; 8];
        nanos.copy_from_slice(&bytes[36..44]);
        Ok(Some(Tick::from_nanos(u64::from_le_bytes(nanos))))
    }

    /// Notes that the store runs at `now`.
    pub(crate) fn write(&mut self, now: Tick) -> io::Result<()> {
        let mut bytes = [0; SIZE];
        bytes[..36].copy_from_slice(&self.boot);
        bytes[36..44].copy_from_slice(&now.as_nanos().to_le_bytes());
        let crc = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        self.medium.write(0, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::disk::{Disk, Folder};

    #[test]
    fn a_sign_of_life_counts_only_within_the_same_boot() {
        let folder = tempfile::tempdir().unwrap();
        let open = |boot| Stamp::new(Folder::new(folder.path()).open("alive", FILE).unwrap(), boot);
        assert_eq!(open("boot-1").last().unwrap(), None);
        open("boot-1").write(Tick::from_nanos(42)).unwrap();
        assert_eq!(open("boot-1").last().unwrap(), Some(Tick::from_nanos(42)));
        assert_eq!(open("boot-2").last().unwrap(), None);
    }
}
