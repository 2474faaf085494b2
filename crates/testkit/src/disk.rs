//! A small disk that tests can fill.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use tempfile::TempDir;

const BALLAST: &str = ".ballast";

/// A tmpfs of a fixed size, mounted in a temporary directory. Mounting needs root. Dropping it unmounts it.
pub struct SmallDisk {
    // Never removed while the disk is mounted: see `Drop`.
    home: Option<TempDir>,
    path: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of `size_bytes`, which the kernel rounds up to whole pages.
    pub fn mount(size_bytes: u64) -> Result<Self> {
        if size_bytes == 0 {
            bail!("a tmpfs of size 0 has no limit");
        }
        let home = tempfile::Builder::new()
            .prefix("testkit-disk-")
            .tempdir()
            .context("cannot create a mount point")?;
        let path = home.path().join("disk");
        fs::create_dir(&path).context("cannot create a mount point")?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size_bytes},mode=0777"), "testkit"]).arg(&path);
        run(&mut mount).context("cannot mount a small disk; this needs root (CAP_SYS_ADMIN)")?;
        Ok(Self { home: Some(home), path })
    }

    /// The mount point.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Fills the disk: the next write of any process fails with `ENOSPC`. Empty files can still be created.
    pub fn fill(&self) -> Result<()> {
        let mut ballast = File::options().create(true).append(true).open(self.path.join(BALLAST))?;
        let chunk = [0; 65_536];
        loop {
            match ballast.write(&chunk) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(()),
                Err(error) => return Err(error).context("cannot fill the disk"),
            }
        }
    }

    /// Frees the space that [`fill`](Self::fill) used.
    pub fn free(&self) -> Result<()> {
        match fs::remove_file(self.path.join(BALLAST)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("cannot free the disk"),
            _ => Ok(()),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // A lazy unmount also works while a server has files open.
        let unmounted = run(Command::new("umount").arg(&self.path))
            .or_else(|_| run(Command::new("umount").arg("-l").arg(&self.path)));
        if unmounted.is_err()
            && let Some(home) = self.home.take()
        {
            // Removing the directory would delete files on the mount, so it is left.
            let _ = home.keep();
        }
    }
}

fn run(command: &mut Command) -> Result<()> {
    let program = command.get_program().display().to_string();
    let Output { status, stderr, .. } = command.output().with_context(|| format!("run {program}"))?;
    if !status.success() {
        bail!("{program}: {status}: {}", String::from_utf8_lossy(&stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_refuses_a_write_until_it_is_freed() {
        let disk = SmallDisk::mount(256 * 1024).unwrap();
        let file = disk.path().join("data");
        disk.fill().unwrap();
        assert_eq!(fs::write(&file, "x").unwrap_err().kind(), ErrorKind::StorageFull);
        disk.free().unwrap();
        fs::write(&file, "x").unwrap();
        disk.free().unwrap();
    }

    #[test]
    fn a_dropped_disk_is_unmounted_even_while_a_file_is_open() {
        let disk = SmallDisk::mount(64 * 1024).unwrap();
        let path = disk.path().to_owned();
        let open = File::create(path.join("data")).unwrap();
        drop(disk);
        assert!(!path.exists());
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(path.to_str().unwrap()), "{mounts}");
        drop(open);
    }

    #[test]
    fn a_disk_without_a_size_is_refused() {
        assert!(SmallDisk::mount(0).is_err());
    }
}
