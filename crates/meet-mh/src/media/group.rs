//! A group as it arrives and as it is cached: appended by one reader of the publisher, read by many writers.
//!
//! Writers hold a [`Reading`] while they may pass bytes on. [`Group::erase`] drops all bytes at once; when the count of
//! readings then reaches zero, nothing of the group is handed to the transport any more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;
use tenure_lease::Tick;
use tenure_meet_wire::media::StreamCode;
use tokio::sync::watch;

use super::track::TrackKey;

/// A bound of cached bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicUsize,
    most: usize,
}

impl Budget {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { used: AtomicUsize::new(0), most })
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Adds bytes. Returns whether the bound is kept.
    fn add(&self, bytes: usize) -> bool {
        self.used.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.most
    }

    fn remove(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Consecutive bytes of a stream, in an allocation of their own.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    pub(crate) arrived: Tick,
    /// The temporal layer of the frame that begins here.
    pub(crate) frame: Option<u8>,
}

/// How a group ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Finished,
    Reset(StreamCode),
}

/// Where a group is and what it may cache.
pub(crate) struct GroupInfo {
    pub(crate) key: TrackKey,
    /// Whether it is published at this handler. Only then it goes to other handlers.
    pub(crate) local: bool,
    pub(crate) rendition: u8,
    pub(crate) number: u64,
    /// Rises over all groups of a handler: the order in which they began.
    pub(crate) serial: u64,
    pub(crate) started: Tick,
    /// The header after the alias, as it arrived.
    pub(crate) header: Bytes,
    pub(crate) most: usize,
    pub(crate) budgets: [Arc<Budget>; 2],
}

/// A group.
pub(crate) struct Group {
    pub(crate) info: GroupInfo,
    content: Mutex<Content>,
    /// Changes with every change of the content; `true` once it was erased.
    progress: watch::Sender<bool>,
    readings: watch::Sender<usize>,
}

#[derive(Default)]
struct Content {
    /// Pieces before this one were evicted.
    base: usize,
    pieces: VecDeque<Piece>,
    bytes: usize,
    end: Option<End>,
    /// Readers that may read more.
    readers: usize,
    /// Whether a newer group took its place: no further reader comes.
    retired: bool,
}

/// The position of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cursor {
    at: usize,
    skipping: bool,
    temporal: u8,
}

impl Cursor {
    /// The beginning of a group, up to a temporal layer.
    pub(crate) const fn new(temporal: u8) -> Self {
        Self { at: 0, skipping: false, temporal }
    }

    /// Leaves out more layers. Layers come back only with the next group: their frames may depend on those left out.
    pub(crate) fn limit(&mut self, temporal: u8) {
        self.temporal = self.temporal.min(temporal);
    }
}

/// What a reader finds.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    Piece(Piece),
    /// More will come.
    Wait,
    /// The next bytes were evicted.
    Evicted,
    End(End),
}

impl Group {
    pub(crate) fn new(info: GroupInfo) -> Arc<Self> {
        Arc::new(Self {
            info,
            content: Mutex::default(),
            progress: watch::Sender::new(false),
            readings: watch::Sender::new(0),
        })
    }

    /// Appends pieces. `Err` when the group was erased: nothing more is wanted. `Ok(true)` when the cache was full and
    /// what readers have not read yet is lost to them.
    pub(crate) fn append(&self, pieces: impl IntoIterator<Item = Piece>) -> Result<bool, StreamCode> {
        let mut content = self.content.lock();
        match content.end {
            Some(End::Reset(code)) => return Err(code),
            Some(End::Finished) => return Err(StreamCode::Superseded),
            None => {}
        }
        let mut evicted = false;
        for piece in pieces {
            let len = piece.bytes.len();
            content.pieces.push_back(piece);
            content.bytes += len;
            let fits = self.info.budgets.iter().fold(true, |fits, budget| budget.add(len) & fits);
            if !fits || content.bytes > self.info.most {
                // The newest piece stays: readers that keep up lose nothing.
                let keep = content.pieces.len().saturating_sub(1);
                let gone: usize = content.pieces.drain(..keep).map(|piece| piece.bytes.len()).sum();
                content.base += keep;
                content.bytes -= gone;
                self.give_back(gone);
                evicted |= keep > 0;
            }
        }
        drop(content);
        self.progress.send_modify(|_| {});
        Ok(evicted)
    }

    /// A newer group takes its place. What has no reader any more is dropped.
    pub(crate) fn retire(&self) {
        let mut content = self.content.lock();
        content.retired = true;
        self.drop_unread(&mut content);
    }

    fn drop_unread(&self, content: &mut Content) {
        if content.retired && content.readers == 0 {
            content.base += content.pieces.len();
            content.pieces = VecDeque::new();
            self.give_back(std::mem::take(&mut content.bytes));
        }
    }

    fn give_back(&self, bytes: usize) {
        for budget in &self.info.budgets {
            budget.remove(bytes);
        }
    }

    /// Ends the group. A group that has ended stays as it is.
    pub(crate) fn finish(&self) {
        self.content.lock().end.get_or_insert(End::Finished);
        self.progress.send_modify(|_| {});
    }

    /// Drops all bytes, also of a group that has ended. Readers learn the code.
    pub(crate) fn erase(&self, code: StreamCode) {
        let mut content = self.content.lock();
        if !matches!(content.end, Some(End::Reset(_))) {
            content.end = Some(End::Reset(code));
        }
        content.base += content.pieces.len();
        content.pieces = VecDeque::new();
        self.give_back(std::mem::take(&mut content.bytes));
        drop(content);
        self.progress.send_replace(true);
    }

    /// Reads on. The cursor moves behind what is returned.
    pub(crate) fn read(&self, cursor: &mut Cursor) -> Read {
        let content = self.content.lock();
        if let Some(end @ End::Reset(_)) = content.end {
            return Read::End(end);
        }
        loop {
            let Some(at) = cursor.at.checked_sub(content.base) else { return Read::Evicted };
            let Some(piece) = content.pieces.get(at) else {
                return content.end.map_or(Read::Wait, Read::End);
            };
            cursor.at += 1;
            if let Some(temporal) = piece.frame {
                cursor.skipping = temporal > cursor.temporal;
            }
            if !cursor.skipping {
                return Read::Piece(piece.clone());
            }
        }
    }

    /// Bytes that a reader has not read yet.
    pub(crate) fn unread_bytes(&self, cursor: &Cursor) -> usize {
        let content = self.content.lock();
        let read = cursor.at.saturating_sub(content.base);
        content.pieces.iter().skip(read).map(|piece| piece.bytes.len()).sum()
    }

    /// The code of a group that was erased.
    pub(crate) fn reset_code(&self) -> Option<StreamCode> {
        match self.content.lock().end {
            Some(End::Reset(code)) => Some(code),
            Some(End::Finished) | None => None,
        }
    }

    /// Whether a new reader can begin.
    pub(crate) fn is_whole(&self) -> bool {
        let content = self.content.lock();
        content.base == 0 && !matches!(content.end, Some(End::Reset(_)))
    }

    /// Whether more may come.
    pub(crate) fn is_open(&self) -> bool {
        self.content.lock().end.is_none()
    }

    /// Changes whenever there is more to read; `true` once the group was erased.
    pub(crate) fn progress(&self) -> watch::Receiver<bool> {
        self.progress.subscribe()
    }

    /// Registers a reader, unless the group was erased.
    pub(crate) fn reading(self: &Arc<Self>) -> Option<Reading> {
        let mut content = self.content.lock();
        if content.retired || matches!(content.end, Some(End::Reset(_))) {
            return None;
        }
        content.readers += 1;
        self.readings.send_modify(|readings| *readings += 1);
        Some(Reading { group: self.clone(), reads: true })
    }

    /// Waits until no reader is left.
    pub(crate) async fn unread(&self) {
        let mut readings = self.readings.subscribe();
        // The sender is part of the group, so the wait ends with the count.
        drop(readings.wait_for(|readings| *readings == 0).await);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let bytes = self.content.get_mut().bytes;
        self.give_back(bytes);
    }
}

/// A reader of a group. Until it is dropped, the transport may hold bytes of the group.
pub(crate) struct Reading {
    group: Arc<Group>,
    reads: bool,
}

impl Reading {
    /// Reads no more. The bytes of the group need not be kept for this reader.
    pub(crate) fn stop_reading(&mut self) {
        if std::mem::take(&mut self.reads) {
            let mut content = self.group.content.lock();
            content.readers -= 1;
            self.group.drop_unread(&mut content);
        }
    }
}

impl std::ops::Deref for Reading {
    type Target = Group;

    fn deref(&self) -> &Group {
        &self.group
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.stop_reading();
        self.group.readings.send_modify(|readings| *readings -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(most: usize) -> (Arc<Group>, Arc<Budget>) {
        let budget = Budget::new(1_000);
        let info = GroupInfo {
            key: TrackKey {
                participant: tenure_meet_wire::Id::parse("018bcfe5-6801-7000-8000-000000000000").unwrap(),
                stream_id: "camera".into(),
            },
            local: true,
            rendition: 0,
            number: 1,
            serial: 1,
            started: Tick::default(),
            header: Bytes::new(),
            most,
            budgets: [budget.clone(), Budget::new(usize::MAX)],
        };
        (Group::new(info), budget)
    }

    fn piece(name: &'static str, frame: Option<u8>) -> Piece {
        Piece { bytes: Bytes::from_static(name.as_bytes()), arrived: Tick::default(), frame }
    }

    fn read(group: &Group, cursor: &mut Cursor) -> String {
        match group.read(cursor) {
            Read::Piece(piece) => String::from_utf8(piece.bytes.to_vec()).unwrap(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn readers_follow_a_group_as_it_arrives() {
        let (group, _) = group(100);
        let (mut one, mut two) = (Cursor::new(3), Cursor::new(3));
        group.append([piece("ab", Some(0))]).unwrap();
        assert_eq!((read(&group, &mut one), read(&group, &mut one)), ("ab".into(), "Wait".into()));
        group.append([piece("cd", None)]).unwrap();
        group.finish();
        assert_eq!((read(&group, &mut one), read(&group, &mut one)), ("cd".into(), "End(Finished)".into()));
        assert_eq!((read(&group, &mut two), read(&group, &mut two)), ("ab".into(), "cd".into()));
        assert!(group.append([piece("x", None)]).is_err());
    }

    #[test]
    fn whole_frames_above_a_layer_are_left_out() {
        let (group, _) = group(100);
        let pieces =
            [("k", Some(0)), ("k", None), ("1", Some(1)), ("1", None), ("0", Some(0)), ("1", Some(1))];
        group.append(pieces.map(|(name, frame)| piece(name, frame))).unwrap();
        let mut cursor = Cursor::new(0);
        let came: String = (0..3).map(|_| read(&group, &mut cursor)).collect();
        assert_eq!((came.as_str(), read(&group, &mut cursor).as_str()), ("kk0", "Wait"));
        let mut cursor = Cursor::new(1);
        read(&group, &mut cursor);
        read(&group, &mut cursor);
        read(&group, &mut cursor);
        cursor.limit(0);
        assert_eq!(read(&group, &mut cursor), "1", "a frame that has begun is completed");
        assert_eq!(read(&group, &mut cursor), "0");
        cursor.limit(1);
        assert_eq!(read(&group, &mut cursor), "Wait", "layers come back with the next group");
    }

    #[test]
    fn an_erased_group_is_empty_for_every_reader() {
        let (group, budget) = group(100);
        group.append([piece("ab", Some(0)), piece("cd", None)]).unwrap();
        let mut cursor = Cursor::new(3);
        read(&group, &mut cursor);
        let reading = group.reading().unwrap();
        assert_eq!(budget.used(), 4);
        group.erase(StreamCode::Muted);
        assert_eq!(budget.used(), 0);
        assert_eq!(read(&group, &mut cursor), "End(Reset(Muted))");
        assert_eq!(group.append([piece("x", None)]), Err(StreamCode::Muted));
        assert!(group.reading().is_none() && !group.is_whole());
        drop(reading);
        assert_eq!(*group.readings.borrow(), 0);
    }

    #[test]
    fn a_group_that_was_replaced_is_kept_while_it_is_read() {
        let (group, budget) = group(100);
        group.append([piece("ab", Some(0))]).unwrap();
        let (mut slow, mut fast) = (group.reading().unwrap(), group.reading().unwrap());
        fast.stop_reading();
        group.retire();
        assert!(group.reading().is_none() && budget.used() == 2);
        slow.stop_reading();
        assert_eq!((budget.used(), *group.readings.borrow()), (0, 2), "the transport may still hold it");
        drop((slow, fast));
        assert_eq!(*group.readings.borrow(), 0);
    }

    #[test]
    fn a_full_cache_evicts_and_readers_that_keep_up_go_on() {
        let (group, budget) = group(5);
        let (mut fast, mut slow) = (Cursor::new(3), Cursor::new(3));
        assert_eq!(group.append([piece("abc", Some(0))]), Ok(false));
        assert_eq!(read(&group, &mut fast), "abc");
        assert_eq!(group.append([piece("def", None)]), Ok(true));
        assert_eq!((read(&group, &mut fast), read(&group, &mut slow)), ("def".into(), "Evicted".into()));
        assert!(!group.is_whole());
        assert_eq!(budget.used(), 3);
        drop(group);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn the_budget_of_all_groups_evicts_as_well() {
        let (group, budget) = group(10_000);
        budget.add(999);
        assert_eq!(group.append([piece("a", Some(0)), piece("b", None)]), Ok(true));
        assert_eq!(budget.used(), 1_000);
    }
}
