//! Allocates free ports, each once.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};

use crate::lock;

/// Below the ephemeral range of Linux (32768 and up). Port 0 would bind an ephemeral port: a client that keeps dialling
/// a killed server could get that port as its source port, connect to itself, and block the restart of the server.
const RANGE: Range<u16> = 20_000..32_000;

/// Allocated ports with their locks, which exclude other test processes until this one ends.
static HELD: Mutex<BTreeMap<u16, File>> = Mutex::new(BTreeMap::new());

/// Allocates a free port of 127.0.0.1. No other caller, in this or another test process, gets it until this process ends,
/// so that a killed server can be restarted on its port.
pub fn free_port() -> Result<u16> {
    let dir = lock_dir()?;
    let mut held = lock(&HELD);
    let span = RANGE.end - RANGE.start;
    let start = (RandomState::new().build_hasher().finish() % u64::from(span)) as u16;
    for step in 0..span {
        let port = RANGE.start + (start + step) % span;
        if held.contains_key(&port) {
            continue;
        }
        let Some(claim) = claim(&dir, port)? else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            held.insert(port, claim);
            return Ok(port);
        }
    }
    bail!("no free port in {RANGE:?}")
}

/// The directory of lock files, one per port. They are never deleted: otherwise two processes could lock two files of the
/// same name.
fn lock_dir() -> Result<PathBuf> {
    let dir = std::env::temp_dir().join("tenure-testkit-ports");
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    Ok(dir)
}

/// Locks `port`; `None` if another process holds it. The kernel releases it when the process ends.
fn claim(dir: &Path, port: u16) -> Result<Option<File>> {
    let path = dir.join(port.to_string());
    let file = File::create(&path).with_context(|| format!("open {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error).with_context(|| format!("lock {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn two_callers_never_get_the_same_port() {
        let threads: Vec<_> = (0..4)
            .map(|_| std::thread::spawn(|| (0..50).map(|_| free_port().unwrap()).collect::<Vec<_>>()))
            .collect();
        let ports: Vec<u16> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), 200);
    }

    #[test]
    fn a_port_can_be_bound_by_whoever_got_it() {
        TcpListener::bind((Ipv4Addr::LOCALHOST, free_port().unwrap())).unwrap();
    }

    #[test]
    fn a_port_locked_by_another_holder_is_not_claimed() {
        let dir = tempfile::tempdir().unwrap();
        let holder = claim(dir.path(), 20_000).unwrap();
        assert!(holder.is_some());
        assert!(claim(dir.path(), 20_000).unwrap().is_none());
        drop(holder);
        assert!(claim(dir.path(), 20_000).unwrap().is_some());
    }
}
