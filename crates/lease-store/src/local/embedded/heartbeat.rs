//! The heartbeat: when the store last ran, so that a restart knows how long holders may rely on their leases.

use std::io;

use tenure_lease::Tick;

use super::storage::StorageFile;

const SIZE: usize = 64;
/// The size of the file.
pub(crate) const FILE: u64 = SIZE as u64;

/// The bytes that the checksum covers: boot id, time, flag.
const COVERED: usize = 36 + 8 + 1;

/// The heartbeat file. It is written without sync: it must survive the process, not the machine, and a rebooted machine has
/// another boot id.
pub(crate) struct Heartbeat {
    file: Box<dyn StorageFile>,
    boot: [u8; 36],
    written: Option<Tick>,
    base_unsynced: bool,
}

/// What the file says about the last process of this boot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LastHeartbeat {
    /// When the store last ran.
    pub(crate) at: Tick,
    /// A sync of the base has failed in this boot.
    pub(crate) base_unsynced: bool,
}

impl Heartbeat {
    pub(crate) fn new(file: Box<dyn StorageFile>, boot: &str) -> Self {
        let mut id = [0; 36];
        let n = boot.len().min(id.len());
        id[..n].copy_from_slice(&boot.as_bytes()[..n]);
        Self { file, boot: id, written: None, base_unsynced: false }
    }

    /// The last heartbeat, if the machine has not rebooted since.
    pub(crate) fn last(&mut self) -> io::Result<Option<LastHeartbeat>> {
        let bytes = self.file.read()?;
        let crc = |bytes: &[u8]| crc32fast::hash(&bytes[..COVERED]).to_le_bytes();
        if bytes.len() < SIZE || crc(&bytes) != bytes[COVERED..COVERED + 4] || bytes[..36] != self.boot {
            return Ok(None);
        }
        let mut nanos = [0; 8];
        nanos.copy_from_slice(&bytes[36..44]);
        let at = Tick::from_nanos(u64::from_le_bytes(nanos));
        Ok(Some(LastHeartbeat { at, base_unsynced: bytes[44] != 0 }))
    }

    /// Records that the store runs at `now`. A writer that comes late changes nothing.
    pub(crate) fn write(&mut self, now: Tick) -> io::Result<()> {
        if self.written.is_some_and(|written| now < written) {
            return Ok(());
        }
        self.put(now)?;
        self.written = Some(now);
        Ok(())
    }

    /// Records that a sync of the base has failed: it must not be opened again before a reboot.
    pub(crate) fn mark_base_unsynced(&mut self) -> io::Result<()> {
        self.base_unsynced = true;
        self.put(self.written.unwrap_or_default())
    }

    fn put(&mut self, at: Tick) -> io::Result<()> {
        let mut bytes = [0; SIZE];
        bytes[..36].copy_from_slice(&self.boot);
        bytes[36..44].copy_from_slice(&at.as_nanos().to_le_bytes());
        bytes[44] = u8::from(self.base_unsynced);
        let crc = crc32fast::hash(&bytes[..COVERED]);
        bytes[COVERED..COVERED + 4].copy_from_slice(&crc.to_le_bytes());
        self.file.write(0, &bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::embedded::{Directory, Storage};

    fn open(directory: &tempfile::TempDir, boot: &str) -> Heartbeat {
        Heartbeat::new(Directory::new(directory.path()).open("alive", FILE).unwrap(), boot)
    }

    fn last(directory: &tempfile::TempDir, boot: &str) -> Option<(u64, bool)> {
        let last = open(directory, boot).last().unwrap();
        last.map(|last| (last.at.as_nanos(), last.base_unsynced))
    }

    #[test]
    fn a_heartbeat_counts_only_within_the_same_boot() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(last(&directory, "boot-1"), None);
        open(&directory, "boot-1").write(Tick::from_nanos(42)).unwrap();
        assert_eq!(last(&directory, "boot-1"), Some((42, false)));
        assert_eq!(last(&directory, "boot-2"), None);
    }

    #[test]
    fn of_two_writers_the_later_heartbeat_stays() {
        let directory = tempfile::tempdir().unwrap();
        let mut heartbeat = open(&directory, "boot-1");
        heartbeat.write(Tick::from_nanos(42)).unwrap();
        // Its writer read the clock before the other one and got the lock after it.
        heartbeat.write(Tick::from_nanos(41)).unwrap();
        assert_eq!(last(&directory, "boot-1"), Some((42, false)));
    }

    #[test]
    fn the_mark_of_a_failed_sync_stays_until_a_reboot() {
        let directory = tempfile::tempdir().unwrap();
        let mut heartbeat = open(&directory, "boot-1");
        heartbeat.write(Tick::from_nanos(42)).unwrap();
        heartbeat.mark_base_unsynced().unwrap();
        assert_eq!(last(&directory, "boot-1"), Some((42, true)));
        heartbeat.write(Tick::from_nanos(43)).unwrap();
        assert_eq!(last(&directory, "boot-1"), Some((43, true)));
        assert_eq!(last(&directory, "boot-2"), None);
    }
}
