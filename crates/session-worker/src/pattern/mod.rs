//! The built-in test pattern: colour bars, a clock and a tone.
//!
//! All sessions show the same stream. It loops over two segments: for each repetition their timestamps are shifted, the
//! result is written once and linked into the output directory of every session, by one timer for all.

mod mp4;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Tick};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{Options, Source, WorkerError, output_dir};

const INIT: &[u8] = include_bytes!("../../assets/pattern/init.mp4");
const SEGMENTS: [&[u8]; 2] =
    [include_bytes!("../../assets/pattern/seg-0.m4s"), include_bytes!("../../assets/pattern/seg-1.m4s")];
/// The duration of a segment.
const SEGMENT: Duration = Duration::from_secs(4);
/// Segments in a playlist.
const WINDOW: u64 = 5;
/// Segments available when a session starts.
const INITIAL: u64 = 3;
/// Segments kept on disk, including those of recent playlists.
const KEPT: u64 = WINDOW + 3;

/// Generates the test pattern. Clones share it.
#[derive(Clone)]
pub(crate) struct PatternSource {
    inner: Arc<Generator>,
}

struct Generator {
    /// The directory in which segments are written before they are linked.
    segment_dir: PathBuf,
    clock: Arc<dyn Clock>,
    epoch: Tick,
    /// The timescale of each track.
    timescales: BTreeMap<u32, u32>,
    outputs: Mutex<Outputs>,
    wake: Notify,
}

#[derive(Default)]
struct Outputs {
    /// The first segment of each output directory.
    dirs: HashMap<PathBuf, u64>,
    /// The last segment linked into all directories.
    last: u64,
}

/// The test pattern in one output directory. Dropping it ends the output.
pub(crate) struct PatternOutput {
    inner: Arc<Generator>,
    dir: PathBuf,
}

impl PatternSource {
    /// Creates the output root, and the segment directory if the test pattern is configured.
    pub(crate) fn open(options: &Options, clock: Arc<dyn Clock>) -> Result<Self, WorkerError> {
        let root = &options.output_dir;
        std::fs::create_dir_all(root).map_err(|error| WorkerError::directory(root, &error))?;
        let segment_dir = root.join(".pattern");
        if matches!(options.source, Source::Pattern) {
            output_dir::create(&segment_dir).map_err(|error| WorkerError::directory(&segment_dir, &error))?;
        }
        let timescales = mp4::timescales(INIT).unwrap_or_default();
        let (epoch, outputs) = (clock.now(), Mutex::default());
        let inner = Generator { segment_dir, clock, epoch, timescales, outputs, wake: Notify::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Starts the output in a directory. Its first segments exist when this returns. Blocks.
    pub(crate) fn start_output(&self, dir: &Path) -> io::Result<PatternOutput> {
        let inner = &self.inner;
        let mut outputs = inner.outputs.lock();
        let number = inner.number(inner.clock.now());
        let first = number + 1 - INITIAL;
        std::fs::write(dir.join("init.mp4"), INIT)?;
        for number in first..=number {
            inner.write_segment(number)?;
            inner.link(dir, number)?;
        }
        publish(dir, first, number)?;
        if outputs.dirs.is_empty() {
            outputs.last = number;
        }
        outputs.dirs.insert(dir.to_owned(), first);
        // The timer is behind: bring the other outputs up to this segment.
        if outputs.last < number {
            inner.advance(&mut outputs, number);
        }
        inner.wake.notify_one();
        Ok(PatternOutput { inner: inner.clone(), dir: dir.to_owned() })
    }

    /// Advances all outputs, once per segment, until `closing`.
    pub(crate) async fn run(self, closing: CancellationToken) {
        let inner = self.inner;
        loop {
            let idle = inner.outputs.lock().dirs.is_empty();
            let next = inner.epoch
                + SEGMENT * (u32::try_from(inner.elapsed_segments(inner.clock.now())).unwrap_or(0) + 1);
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = inner.wake.notified(), if idle => continue,
                () = inner.clock.sleep_until(next), if !idle => {}
            }
            let generator = inner.clone();
            let advanced = tokio::task::spawn_blocking(move || {
                let number = generator.number(generator.clock.now());
                let mut outputs = generator.outputs.lock();
                generator.advance(&mut outputs, number);
            });
            if advanced.await.is_err() {
                tracing::error!(target: crate::telemetry::TARGET, "failed to advance the test pattern");
            }
        }
    }
}

impl Generator {
    fn elapsed_segments(&self, now: Tick) -> u64 {
        (now.since(self.epoch).as_millis() / SEGMENT.as_millis()) as u64
    }

    /// The newest segment at `now`. The initial segments lie before the epoch.
    fn number(&self, now: Tick) -> u64 {
        self.elapsed_segments(now) + INITIAL
    }

    fn advance(&self, outputs: &mut Outputs, number: u64) {
        let from = (outputs.last + 1).max(number.saturating_sub(WINDOW));
        for next in from..=number {
            if let Err(error) = self.write_segment(next) {
                tracing::error!(target: crate::telemetry::TARGET, %error, "failed to write a test pattern segment");
                return;
            }
        }
        for (dir, first) in &outputs.dirs {
            let linked = (from.max(*first)..=number).try_for_each(|next| self.link(dir, next));
            if let Err(error) = linked.and_then(|()| publish(dir, *first, number)) {
                tracing::warn!(target: crate::telemetry::TARGET, %error, dir = %dir.display(), "failed to publish the test pattern");
            }
            remove_old_segments(dir, outputs.last, number);
        }
        remove_old_segments(&self.segment_dir, outputs.last, number);
        outputs.last = number;
    }

    /// Writes a segment unless it exists.
    fn write_segment(&self, number: u64) -> io::Result<()> {
        let file = self.segment_dir.join(segment_name(number));
        if file.exists() {
            return Ok(());
        }
        let (repetition, part) = (number / SEGMENTS.len() as u64, number % SEGMENTS.len() as u64);
        let length = SEGMENT.as_secs() * SEGMENTS.len() as u64;
        let by = |track| Some(repetition * length * u64::from(*self.timescales.get(&track)?));
        let sequence = (number % u64::from(u32::MAX)) as u32 + 1;
        let segment = mp4::shift_segment(SEGMENTS[part as usize], sequence, by)
            .ok_or_else(|| io::Error::other("malformed test pattern segment"))?;
        let temporary = self.segment_dir.join(format!("{}.tmp", segment_name(number)));
        std::fs::write(&temporary, segment)?;
        std::fs::rename(temporary, file)
    }

    fn link(&self, dir: &Path, number: u64) -> io::Result<()> {
        let (segment, file) = (self.segment_dir.join(segment_name(number)), dir.join(segment_name(number)));
        match std::fs::hard_link(&segment, &file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Some file systems do not support hard links.
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::fs::copy(&segment, &file).map(drop),
            linked => linked,
        }
    }
}

impl Drop for PatternOutput {
    fn drop(&mut self) {
        self.inner.outputs.lock().dirs.remove(&self.dir);
    }
}

fn segment_name(number: u64) -> String {
    format!("seg-{number:05}.m4s")
}

/// Removes the segments that no recent playlist lists, after the step from `last` to `number`.
fn remove_old_segments(dir: &Path, last: u64, number: u64) {
    for old in last.saturating_sub(KEPT)..number.saturating_sub(KEPT) {
        // The file may never have existed.
        drop(std::fs::remove_file(dir.join(segment_name(old))));
    }
}

/// Writes the playlist atomically.
fn publish(dir: &Path, first: u64, last: u64) -> io::Result<()> {
    let temporary = dir.join("index.m3u8.tmp");
    std::fs::write(&temporary, playlist(first, last))?;
    std::fs::rename(temporary, dir.join(output_dir::PLAYLIST))
}

fn playlist(first: u64, last: u64) -> String {
    let first = first.max((last + 1).saturating_sub(WINDOW));
    let seconds = SEGMENT.as_secs();
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{seconds}\n#EXT-X-MEDIA-SEQUENCE:{first}\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4\"\n"
    );
    for number in first..=last {
        text += &format!("#EXTINF:{seconds}.000,\n{}\n", segment_name(number));
    }
    text
}

#[cfg(test)]
mod tests;
