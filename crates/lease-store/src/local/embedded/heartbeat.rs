//! The heartbeat: when the store last ran, so that a restart knows how long holders may rely on their leases.

use std::io;

use tenure_lease::Tick;

use super::storage::StorageFile;

const SIZE: usize = 64;
/// The size of the file.
pub(crate) const FILE: u64 = SIZE as u64;

/// The heartbeat file. It is written without sync: it must survive the process, not the machine, and a rebooted machine has
/// another boot id.
pub(crate) struct Heartbeat {
    file: Box<dyn StorageFile>,
    boot: [u8; 36],
}

impl Heartbeat {
    pub(crate) fn new(file: Box<dyn StorageFile>, boot: &str) -> Self {
        let mut id = [0; 36];
        let n = boot.len().min(id.len());
        id[..n].copy_from_slice(&boot.as_bytes()[..n]);
        Self { file, boot: id }
    }

    /// When the store last ran, if the machine has not rebooted since.
    pub(crate) fn last(&mut self) -> io::Result<Option<Tick>> {
        let bytes = self.file.read()?;
        let whole = bytes.len() >= SIZE && crc32fast::hash(&bytes[..44]).to_le_bytes() == bytes[44..48];
        if !whole || bytes[..36] != self.boot {
            return Ok(None);
        }
        let mut nanos = [0; 8];
        nanos.copy_from_slice(&bytes[36..44]);
        Ok(Some(Tick::from_nanos(u64::from_le_bytes(nanos))))
    }

    /// Records that the store runs at `now`.
    pub(crate) fn write(&mut self, now: Tick) -> io::Result<()> {
        let mut bytes = [0; SIZE];
        bytes[..36].copy_from_slice(&self.boot);
        bytes[36..44].copy_from_slice(&now.as_nanos().to_le_bytes());
        let crc = crc32fast::hash(&bytes[..44]);
        bytes[44..48].copy_from_slice(&crc.to_le_bytes());
        self.file.write(0, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::embedded::{Directory, Storage};

    #[test]
    fn a_heartbeat_counts_only_within_the_same_boot() {
        let directory = tempfile::tempdir().unwrap();
        let open = |boot| Heartbeat::new(Directory::new(directory.path()).open("alive", FILE).unwrap(), boot);
        assert_eq!(open("boot-1").last().unwrap(), None);
        open("boot-1").write(Tick::from_nanos(42)).unwrap();
        assert_eq!(open("boot-1").last().unwrap(), Some(Tick::from_nanos(42)));
        assert_eq!(open("boot-2").last().unwrap(), None);
    }
}
