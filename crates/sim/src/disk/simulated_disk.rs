//! A disk that keeps only what was synced, and of the rest whatever it likes.
//!
//! A file is what the processes of its machine see. Beside it lie the former contents of the sectors that were
//! written and not synced since: when the machine crashes, each of them may come back. A process that dies takes
//! nothing with it. A sync that fails leaves its sectors clean in the eyes of the system, though some of them never
//! reached the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tenure_store::{BlockFile, DirectFile, Storage, StorageFile};

use super::seeded_rng::SeededRng;

/// What a disk writes whole or not at all.
const SECTOR: usize = 512;

/// The file under redb.
pub(crate) const BASE: &str = "base";

/// A disk that outlives the processes and the machine's crashes. Clones share it; each belongs to the process that
/// had it when it was made and is useless after that.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    life: u64,
}

#[derive(Debug)]
struct State {
    files: [File; 4],
    /// Which process may use the disk; the number of lives so far.
    life: u64,
    dead: bool,
    rng: SeededRng,
    faults: Faults,
    seen: Seen,
    /// Whether journals are written with direct I/O, in whole blocks.
    direct: bool,
}

/// What goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// After how many more operations the power goes or the process dies.
    pub(crate) fuse: Option<u32>,
    /// The next sync of a journal fails.
    pub(crate) journal_sync: bool,
    /// The next sync of the base fails.
    pub(crate) base_sync: bool,
    /// The next write of a journal fails.
    pub(crate) journal_write: bool,
    /// No file grows.
    pub(crate) full: bool,
    /// The file with the sign of life takes nothing.
    pub(crate) mute: bool,
}

/// What was seen from outside.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Seen {
    /// A sync or a write of a journal has failed in this life.
    pub(crate) journal_failed: bool,
    /// A sync of the base has failed since the machine started. From then on the system takes sectors for
    /// written that are not, until it drops them.
    pub(crate) base_failed: bool,
    /// Operations so far.
    pub(crate) operations: u64,
    /// A number that two runs share only if they did the same.
    pub(crate) trace: u64,
}

#[derive(Debug, Default)]
struct File {
    bytes: Vec<u8>,
    durable_len: usize,
    /// Former contents of sectors that may not be on the disk.
    undo: BTreeMap<usize, [u8; SECTOR]>,
    /// Sectors that the next sync writes.
    dirty: BTreeSet<usize>,
}

impl File {
    fn former(&self, sector: usize) -> [u8; SECTOR] {
        let mut old = [0; SECTOR];
        if let Some(from) = self.bytes.get(sector * SECTOR..) {
            let n = from.len().min(SECTOR);
            old[..n].copy_from_slice(&from[..n]);
        }
        old
    }

    fn touch(&mut self, from: usize, to: usize) {
        for sector in from / SECTOR..to.div_ceil(SECTOR) {
            let old = self.former(sector);
            self.undo.entry(sector).or_insert(old);
            self.dirty.insert(sector);
        }
    }

    fn resize(&mut self, len: usize) {
        if len < self.bytes.len() {
            self.touch(len, self.bytes.len());
        }
        self.bytes.resize(len, 0);
    }

    fn synced(&mut self) {
        for sector in std::mem::take(&mut self.dirty) {
            self.undo.remove(&sector);
        }
        self.durable_len = self.bytes.len();
    }

    /// The system forgets that these sectors are not on the disk; some of them are.
    fn sync_failed(&mut self, rng: &mut SeededRng) {
        for sector in std::mem::take(&mut self.dirty) {
            if rng.one_in(3) {
                self.undo.remove(&sector);
            }
        }
    }

    /// The system drops the pages that it takes for written, and reads them from the disk again.
    fn drop_cache(&mut self) {
        let clean: Vec<usize> =
            self.undo.keys().filter(|sector| !self.dirty.contains(sector)).copied().collect();
        for sector in clean {
            if let Some(old) = self.undo.remove(&sector) {
                self.put_back(sector, &old);
            }
        }
    }

    fn put_back(&mut self, sector: usize, old: &[u8; SECTOR]) {
        let start = sector * SECTOR;
        let end = (start + SECTOR).min(self.bytes.len());
        if start < end {
            self.bytes[start..end].copy_from_slice(&old[..end - start]);
        }
    }

    /// The power goes.
    fn crash(&mut self, rng: &mut SeededRng) {
        let sectors: Vec<usize> = self.undo.keys().copied().collect();
        // All, none, those before a point, or any.
        let (how, cut) = (rng.below(4), rng.below(sectors.len() as u64 + 1) as usize);
        if self.bytes.len() != self.durable_len && (how == 0 || (how > 1 && rng.one_in(2))) {
            self.bytes.resize(self.durable_len, 0);
        }
        for (i, sector) in sectors.into_iter().enumerate() {
            let was_dirty = self.dirty.contains(&sector);
            let kept = match how {
                _ if !was_dirty => false,
                0 => false,
                1 => true,
                2 => i < cut,
                _ => rng.one_in(2),
            };
            if let Some(old) = self.undo.get(&sector).filter(|_| !kept).copied() {
                self.put_back(sector, &old);
            }
        }
        self.undo.clear();
        self.dirty.clear();
        self.durable_len = self.bytes.len();
    }
}

impl State {
    fn file(&mut self, name: &str) -> &mut File {
        &mut self.files[place(name)]
    }

    /// Counts an operation that changes the disk; false when it is the last one of this life.
    fn burn(&mut self, what: u64) -> bool {
        self.seen.operations += 1;
        self.seen.trace = (self.seen.trace ^ what).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        match &mut self.faults.fuse {
            Some(0) => self.dead = true,
            Some(left) => *left -= 1,
            None => {}
        }
        !self.dead
    }
}

fn place(name: &str) -> usize {
    match name {
        BASE => 0,
        "journal-a.log" => 1,
        "journal-b.log" => 2,
        _ => 3,
    }
}

fn gone() -> io::Error {
    io::Error::other("this process is dead")
}

fn full() -> io::Error {
    io::Error::from(io::ErrorKind::StorageFull)
}

impl SimulatedDisk {
    pub(crate) fn new(rng: SeededRng, direct: bool) -> Self {
        let (faults, seen) = (Faults::default(), Seen::default());
        let state = State { files: Default::default(), life: 0, dead: false, rng, faults, seen, direct };
        Self { state: Arc::new(Mutex::new(state)), life: 0 }
    }

    fn look(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn alive(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.look();
        if state.dead || state.life != self.life { Err(gone()) } else { Ok(state) }
    }

    /// What goes wrong from now on.
    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.look().faults);
    }

    pub(crate) fn seen(&self) -> Seen {
        self.look().seen
    }

    /// Whether the process or the machine died in the midst of an operation.
    pub(crate) fn died(&self) -> bool {
        self.look().dead
    }

    /// Ends this life, by the machine's crash if `power`, and gives the disk to the next process.
    pub(crate) fn next_life(&self, power: bool) -> Self {
        let mut guard = self.look();
        let state = &mut *guard;
        if power {
            state.files.iter_mut().for_each(|file| file.crash(&mut state.rng));
            state.seen.base_failed = false;
        }
        state.life += 1;
        state.dead = false;
        state.faults = Faults::default();
        state.seen.journal_failed = false;
        Self { state: self.state.clone(), life: state.life }
    }

    /// Opens the base as the system shows it, whatever is on the disk.
    pub(crate) fn cached_base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        drop(self.alive()?);
        Ok(Box::new(self.clone()))
    }

    fn write_to(&self, name: &str, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.alive()?;
        let journal = name.starts_with("journal");
        if journal && std::mem::take(&mut state.faults.journal_write) {
            state.seen.journal_failed = true;
            return Err(io::Error::other("the device did not write"));
        }
        if name == "alive" && state.faults.mute {
            return Err(io::Error::other("the device did not write"));
        }
        let (at, end) = (at as usize, at as usize + bytes.len());
        let (blocked, file) = (state.faults.full, state.file(name));
        if end > file.bytes.len() {
            if blocked {
                return Err(full());
            }
            file.resize(end);
        }
        file.touch(at, end);
        file.bytes[at..end].copy_from_slice(bytes);
        if state.burn(at as u64 ^ (end as u64) << 32) { Ok(()) } else { Err(gone()) }
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let mut guard = self.alive()?;
        let state = &mut *guard;
        if !state.burn(1) {
            return Err(gone());
        }
        let journal = name.starts_with("journal");
        let fault = if journal { &mut state.faults.journal_sync } else { &mut state.faults.base_sync };
        let fails = std::mem::take(fault);
        let file = &mut state.files[place(name)];
        if fails {
            file.sync_failed(&mut state.rng);
            state.seen.journal_failed |= journal;
            state.seen.base_failed |= name == BASE;
            return Err(io::Error::other("the device did not sync"));
        }
        file.synced();
        Ok(())
    }
}

impl Storage for SimulatedDisk {
    fn open(&self, name: &str, size: u64) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.alive()?;
        let (blocked, file) = (state.faults.full, state.file(name));
        if (file.bytes.len() as u64) < size {
            if blocked {
                return Err(full());
            }
            // The real one writes zeros and syncs them.
            file.bytes.resize(size as usize, 0);
            file.synced();
        }
        let handle = Handle { disk: self.clone(), name: name.to_owned() };
        match state.direct && name.starts_with("journal") {
            true => Ok(Box::new(DirectFile::on(handle))),
            false => Ok(Box::new(handle)),
        }
    }

    fn base(&self) -> io::Result<Box<dyn redb::StorageBackend>> {
        self.alive()?.file(BASE).drop_cache();
        Ok(Box::new(self.clone()))
    }
}

struct Handle {
    disk: SimulatedDisk,
    name: String,
}

impl StorageFile for Handle {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut state = self.disk.alive()?;
        Ok(state.file(&self.name).bytes.clone())
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_to(&self.name, at, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.disk.sync(&self.name)
    }
}

impl BlockFile for Handle {
    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.alive()?.file(&self.name).bytes.len() as u64)
    }

    fn read_blocks(&self, out: &mut [u8], at: u64) -> io::Result<()> {
        let mut state = self.disk.alive()?;
        let from = state.file(&self.name).bytes.get(at as usize..at as usize + out.len());
        out.copy_from_slice(from.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn write_blocks(&mut self, blocks: &[u8], at: u64) -> io::Result<()> {
        self.disk.write_to(&self.name, at, blocks)
    }

    fn sync_blocks(&mut self) -> io::Result<()> {
        self.disk.sync(&self.name)
    }
}

impl redb::StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.alive()?.file(BASE).bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.alive()?;
        let bytes = &state.file(BASE).bytes;
        let from = bytes.get(offset as usize..offset as usize + out.len());
        out.copy_from_slice(from.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.alive()?;
        let (blocked, file) = (state.faults.full, state.file(BASE));
        if blocked && len as usize > file.bytes.len() {
            return Err(full());
        }
        file.resize(len as usize);
        if state.burn(len) { Ok(()) } else { Err(gone()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync(BASE)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_to(BASE, offset, data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> (SimulatedDisk, Box<dyn StorageFile>) {
        let disk = SimulatedDisk::new(SeededRng::new(1), false);
        let mut file = disk.open("journal-a.log", 4_096).unwrap();
        file.write(0, &[1; 2_048]).unwrap();
        file.sync().unwrap();
        file.write(0, &[2; 4_096]).unwrap();
        (disk, file)
    }

    fn read(disk: &SimulatedDisk) -> Vec<u8> {
        disk.open("journal-a.log", 4_096).unwrap().read().unwrap()
    }

    #[test]
    fn a_process_that_dies_takes_nothing_with_it() {
        let (disk, _) = written();
        assert_eq!(read(&disk.next_life(false)), [2; 4_096]);
    }

    #[test]
    fn a_crash_tears_what_was_not_synced_by_sectors() {
        let mut seen = BTreeSet::new();
        for seed in 0..64 {
            let disk = SimulatedDisk::new(SeededRng::new(seed), false);
            let mut file = disk.open("journal-a.log", 2_048).unwrap();
            file.write(0, &[1; 2_048]).unwrap();
            file.sync().unwrap();
            file.write(0, &[2; 2_048]).unwrap();
            let after = disk.next_life(true).open("journal-a.log", 2_048).unwrap().read().unwrap();
            assert!(after.chunks(SECTOR).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
            seen.insert(after.iter().step_by(SECTOR).take(4).copied().collect::<Vec<_>>());
        }
        assert!(seen.contains(&vec![1; 4]) && seen.contains(&vec![2; 4]) && seen.len() > 6, "{seen:?}");
    }

    #[test]
    fn what_was_synced_stays() {
        let (disk, mut file) = written();
        file.sync().unwrap();
        assert_eq!(read(&disk.next_life(true)), [2; 4_096]);
    }

    #[test]
    fn after_a_sync_that_failed_the_next_one_writes_nothing_of_it() {
        let (disk, mut file) = written();
        disk.faults(|faults| faults.journal_sync = true);
        file.sync().unwrap_err();
        file.sync().unwrap();
        let after = read(&disk.next_life(true));
        assert!(after.contains(&1), "everything came through by chance: choose another seed");
    }

    #[test]
    fn a_base_is_opened_as_it_is_on_the_disk() {
        let disk = SimulatedDisk::new(SeededRng::new(1), false);
        let base = disk.base().unwrap();
        base.set_len(4_096).unwrap();
        base.sync_data().unwrap();
        base.write(0, &[1; 4_096]).unwrap();
        disk.faults(|faults| faults.base_sync = true);
        base.sync_data().unwrap_err();
        let mut seen = [0; 4_096];
        base.read(0, &mut seen).unwrap();
        assert_eq!(seen, [1; 4_096]);
        disk.next_life(false).base().unwrap().read(0, &mut seen).unwrap();
        assert!(seen.contains(&0), "everything came through by chance: choose another seed");
    }

    #[test]
    fn a_process_of_an_earlier_life_touches_nothing() {
        let (disk, mut file) = written();
        let next = disk.next_life(false);
        file.write(0, &[3; 10]).unwrap_err();
        assert_eq!(read(&next), [2; 4_096]);
    }
}
