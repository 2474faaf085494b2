//! What happened, numbered without a gap, as far back as it is kept.

use std::collections::VecDeque;

use meet_wire::Id;

use crate::meeting::{Happening, limits};

/// For whom an entry is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Audience {
    /// Everybody.
    All,
    /// These; the others are only told that there was something.
    Some(Vec<Id>),
}

impl Audience {
    /// Whether somebody is among them.
    pub fn has(&self, participant: Id) -> bool {
        match self {
            Self::All => true,
            Self::Some(these) => these.contains(&participant),
        }
    }
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Its number; the first is 1.
    pub seq: u64,
    /// What it was.
    pub happening: Happening,
}

/// The last things that happened.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Journal {
    last: u64,
    bytes: usize,
    kept: VecDeque<Entry>,
}

/// What somebody missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missed<'a> {
    /// These, in order.
    These(Vec<&'a Entry>),
    /// More than is kept, or it knows of things that never happened: it needs everything anew.
    TooMuch,
}

impl Journal {
    /// A journal as a store kept it. Entries that do not end at `last` without a gap are left out.
    pub fn restore(last: u64, entries: Vec<Entry>) -> Self {
        let mut journal = Self { last, ..Self::default() };
        let mut expected = last;
        for entry in entries.into_iter().rev() {
            if entry.seq != expected || expected == 0 {
                break;
            }
            expected -= 1;
            journal.bytes += entry.happening.weight();
            journal.kept.push_front(entry);
        }
        journal.shrink();
        journal
    }

    /// The number of the last thing that happened; zero when nothing has.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The entries that are kept, oldest first.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        self.kept.iter()
    }

    pub(super) fn append(&mut self, happening: Happening) {
        self.last += 1;
        self.bytes += happening.weight();
        self.kept.push_back(Entry { seq: self.last, happening });
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.kept.len() > limits::EVENTS || self.bytes > limits::EVENT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { return };
            self.bytes -= oldest.happening.weight();
        }
    }

    /// What came after `seen`.
    pub fn since(&self, seen: u64) -> Missed<'_> {
        let oldest = self.kept.front().map_or(self.last + 1, |entry| entry.seq);
        if seen > self.last || seen + 1 < oldest {
            return Missed::TooMuch;
        }
        Missed::These(self.kept.iter().skip_while(|entry| entry.seq <= seen).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meeting::LeaveReason;

    fn left(number: u8) -> Happening {
        let id = Id::parse(&format!("018bcfe5-6800-7fff-bfff-ffffffffff{number:02x}")).unwrap();
        Happening::Left { participant: id, reason: LeaveReason::Voluntary }
    }

    fn filled(count: u64) -> Journal {
        let mut journal = Journal::default();
        (0..count).for_each(|number| journal.append(left(number as u8)));
        journal
    }

    fn seqs(missed: Missed<'_>) -> Option<Vec<u64>> {
        match missed {
            Missed::These(entries) => Some(entries.iter().map(|entry| entry.seq).collect()),
            Missed::TooMuch => None,
        }
    }

    #[test]
    fn what_was_missed_is_given_whole_or_not_at_all() {
        let journal = filled(5);
        assert_eq!(seqs(journal.since(0)), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(seqs(journal.since(3)), Some(vec![4, 5]));
        assert_eq!(seqs(journal.since(5)), Some(vec![]));
        assert_eq!(seqs(journal.since(6)), None, "what never happened");
        assert_eq!(seqs(Journal::default().since(0)), Some(vec![]));
        let long = filled(limits::EVENTS as u64 + 10);
        assert_eq!(seqs(long.since(9)), None);
        assert_eq!(seqs(long.since(10)).unwrap().len(), limits::EVENTS);
    }

    #[test]
    fn many_bytes_are_forgotten_before_many_events() {
        let mut journal = Journal::default();
        let id = Id::parse("018bcfe5-6800-7fff-bfff-ffffffffffff").unwrap();
        for _ in 0..200 {
            journal.append(Happening::Data {
                participant: id,
                topic: String::new(),
                payload: vec![0; 32 * 1024].into(),
                to: Vec::new(),
            });
        }
        assert!(journal.entries().count() < 140 && journal.last() == 200);
    }

    #[test]
    fn a_restored_journal_keeps_only_what_ends_without_a_gap() {
        let entries: Vec<Entry> = filled(6).entries().cloned().collect();
        assert_eq!(Journal::restore(6, entries.clone()), filled(6));
        let mut holed = entries.clone();
        holed.remove(2);
        assert_eq!(seqs(Journal::restore(6, holed).since(3)), Some(vec![4, 5, 6]));
        assert_eq!(seqs(Journal::restore(6, entries[..5].to_vec()).since(5)), None);
        assert_eq!(seqs(Journal::restore(6, entries[..5].to_vec()).since(6)), Some(vec![]));
    }
}
