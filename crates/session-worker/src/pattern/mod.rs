//! The built-in test picture: colour bars, a clock and a tone, for as many sessions as there are.
//!
//! Everybody sees the same film. It has two segments; each time around they are moved on in time, written once, and
//! linked into the folder of every session, on one timer for all.

mod mp4;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Tick};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{Fatal, Options, Source, folder};

const INIT: &[u8] = include_bytes!("../../assets/pattern/init.mp4");
const FILM: [&[u8]; 2] =
    [include_bytes!("../../assets/pattern/seg-0.m4s"), include_bytes!("../../assets/pattern/seg-1.m4s")];
/// How long each segment is.
const SEGMENT: Duration = Duration::from_secs(4);
/// Segments that a playlist names.
const WINDOW: u64 = 5;
/// Segments that are there from the first moment on.
const AT_ONCE: u64 = 3;
/// Segments that are kept: those that a playlist of a moment ago named.
const KEPT: u64 = WINDOW + 3;

/// Shows the film. Clones share it.
#[derive(Clone)]
pub(crate) struct Projector {
    inner: Arc<Inner>,
}

struct Inner {
    /// Where segments are made before they are linked.
    reels: PathBuf,
    clock: Arc<dyn Clock>,
    epoch: Tick,
    /// Units per second, by track.
    scales: BTreeMap<u32, u32>,
    house: Mutex<House>,
    woken: Notify,
}

#[derive(Default)]
struct House {
    /// The first segment of each folder in which the film is shown.
    shows: HashMap<PathBuf, u64>,
    /// The last segment that was given to all.
    last: u64,
}

/// The film in one folder; dropped, it ends there.
pub(crate) struct Show {
    inner: Arc<Inner>,
    folder: PathBuf,
}

impl Projector {
    /// Prepares the folder of all sessions, and the reels if the film is to be shown.
    pub(crate) fn open(options: &Options, clock: Arc<dyn Clock>) -> Result<Self, Fatal> {
        let root = &options.output_dir;
        std::fs::create_dir_all(root).map_err(|error| Fatal::folder(root, &error))?;
        let reels = root.join(".pattern");
        if matches!(options.source, Source::Pattern) {
            folder::make(&reels).map_err(|error| Fatal::folder(&reels, &error))?;
        }
        let scales = mp4::timescales(INIT).unwrap_or_default();
        let (epoch, house) = (clock.now(), Mutex::default());
        let inner = Inner { reels, clock, epoch, scales, house, woken: Notify::new() };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Shows the film in a folder; its first segments are there when this returns. Blocks.
    pub(crate) fn show(&self, folder: &Path) -> io::Result<Show> {
        let inner = &self.inner;
        let mut house = inner.house.lock();
        let number = inner.number(inner.clock.now());
        let first = number + 1 - AT_ONCE;
        std::fs::write(folder.join("init.mp4"), INIT)?;
        for number in first..=number {
            inner.reel(number)?;
            inner.link(folder, number)?;
        }
        publish(folder, first, number)?;
        if house.shows.is_empty() {
            house.last = number;
        }
        house.shows.insert(folder.to_owned(), first);
        // Told to everybody else since, this one has to be caught up with.
        if house.last < number {
            inner.advance(&mut house, number);
        }
        inner.woken.notify_one();
        Ok(Show { inner: inner.clone(), folder: folder.to_owned() })
    }

    /// Goes on until the end: one turn for every segment, for all.
    pub(crate) async fn run(self, closing: CancellationToken) {
        let inner = self.inner;
        loop {
            let idle = inner.house.lock().shows.is_empty();
            let next =
                inner.epoch + SEGMENT * (u32::try_from(inner.turns(inner.clock.now())).unwrap_or(0) + 1);
            tokio::select! {
                biased;
                () = closing.cancelled() => return,
                () = inner.woken.notified(), if idle => continue,
                () = inner.clock.sleep_until(next), if !idle => {}
            }
            let turning = inner.clone();
            let turn = tokio::task::spawn_blocking(move || {
                let number = turning.number(turning.clock.now());
                let mut house = turning.house.lock();
                turning.advance(&mut house, number);
            });
            if turn.await.is_err() {
                tracing::error!(target: crate::metric::TARGET, "the test picture could not go on");
            }
        }
    }
}

impl Inner {
    fn turns(&self, now: Tick) -> u64 {
        (now.since(self.epoch).as_millis() / SEGMENT.as_millis()) as u64
    }

    /// The segment that is the newest at `now`. The first ones are of before the beginning.
    fn number(&self, now: Tick) -> u64 {
        self.turns(now) + AT_ONCE
    }

    fn advance(&self, house: &mut House, number: u64) {
        let from = (house.last + 1).max(number.saturating_sub(WINDOW));
        for next in from..=number {
            if let Err(error) = self.reel(next) {
                tracing::error!(target: crate::metric::TARGET, %error, "the test picture could not be written");
                return;
            }
        }
        for (folder, first) in &house.shows {
            let shown = (from.max(*first)..=number).try_for_each(|next| self.link(folder, next));
            if let Err(error) = shown.and_then(|()| publish(folder, *first, number)) {
                tracing::warn!(target: crate::metric::TARGET, %error, folder = %folder.display(), "the test picture could not be shown");
            }
            forget(folder, house.last, number);
        }
        forget(&self.reels, house.last, number);
        house.last = number;
    }

    /// Writes a segment once.
    fn reel(&self, number: u64) -> io::Result<()> {
        let file = self.reels.join(name(number));
        if file.exists() {
            return Ok(());
        }
        let (round, part) = (number / FILM.len() as u64, number % FILM.len() as u64);
        let length = SEGMENT.as_secs() * FILM.len() as u64;
        let by = |track| Some(round * length * u64::from(*self.scales.get(&track)?));
        let sequence = (number % u64::from(u32::MAX)) as u32 + 1;
        let segment = mp4::moved(FILM[part as usize], sequence, by)
            .ok_or_else(|| io::Error::other("the film is no film"))?;
        let half_done = self.reels.join(format!("{}.tmp", name(number)));
        std::fs::write(&half_done, segment)?;
        std::fs::rename(half_done, file)
    }

    fn link(&self, folder: &Path, number: u64) -> io::Result<()> {
        let (reel, file) = (self.reels.join(name(number)), folder.join(name(number)));
        match std::fs::hard_link(&reel, &file) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            // Not every file system has links.
            Err(error) if error.kind() != io::ErrorKind::NotFound => std::fs::copy(&reel, &file).map(drop),
            linked => linked,
        }
    }
}

impl Drop for Show {
    fn drop(&mut self) {
        self.inner.house.lock().shows.remove(&self.folder);
    }
}

fn name(number: u64) -> String {
    format!("seg-{number:05}.m4s")
}

/// Removes the segments that stay out of every playlist since the turn from `last` to `number`.
fn forget(folder: &Path, last: u64, number: u64) {
    for old in last.saturating_sub(KEPT)..number.saturating_sub(KEPT) {
        // It may never have been there.
        drop(std::fs::remove_file(folder.join(name(old))));
    }
}

/// Writes the playlist in one step.
fn publish(folder: &Path, first: u64, last: u64) -> io::Result<()> {
    let half_done = folder.join("index.m3u8.tmp");
    std::fs::write(&half_done, playlist(first, last))?;
    std::fs::rename(half_done, folder.join(folder::PLAYLIST))
}

fn playlist(first: u64, last: u64) -> String {
    let first = first.max((last + 1).saturating_sub(WINDOW));
    let seconds = SEGMENT.as_secs();
    let mut text = format!(
        "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:{seconds}\n#EXT-X-MEDIA-SEQUENCE:{first}\n\
         #EXT-X-INDEPENDENT-SEGMENTS\n#EXT-X-MAP:URI=\"init.mp4\"\n"
    );
    for number in first..=last {
        text += &format!("#EXTINF:{seconds}.000,\n{}\n", name(number));
    }
    text
}

#[cfg(test)]
mod tests;
