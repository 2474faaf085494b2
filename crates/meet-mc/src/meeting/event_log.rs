//! The last events of a meeting, numbered without gaps.

use std::collections::VecDeque;

use tenure_lease::breaks::{Break, broken};

use crate::meeting::{Event, limits};

/// An event with its number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedEvent {
    /// The number; the first event is 1.
    pub seq: u64,
    /// The event.
    pub event: Event,
}

/// The last events, bounded in number and size.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct EventLog {
    last: u64,
    bytes: usize,
    events: VecDeque<LoggedEvent>,
}

/// The events that a client missed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Replay<'a> {
    /// The missed events, in order.
    Events(Vec<&'a LoggedEvent>),
    /// The log does not reach back far enough, or the client is ahead of it: a snapshot is needed.
    Unavailable,
}

impl EventLog {
    /// Restores a log that ends at `last`. Events before a gap are dropped.
    pub fn restore(last: u64, events: Vec<LoggedEvent>) -> Self {
        let mut log = Self { last, ..Self::default() };
        let mut expected = last;
        for entry in events.into_iter().rev() {
            if entry.seq != expected || expected == 0 {
                break;
            }
            expected -= 1;
            log.bytes += entry.event.size_estimate();
            log.events.push_front(entry);
        }
        log.shrink();
        log
    }

    /// The number of the last event; zero if there is none.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// The events, oldest first.
    pub fn events(&self) -> impl DoubleEndedIterator<Item = &LoggedEvent> {
        self.events.iter()
    }

    pub(super) fn append(&mut self, event: Event) {
        self.last += if broken(Break::SkipsEventNumbers) { 2 } else { 1 };
        self.bytes += event.size_estimate();
        self.events.push_back(LoggedEvent { seq: self.last, event });
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.events.len() > limits::EVENTS || self.bytes > limits::EVENT_BYTES {
            let Some(oldest) = self.events.pop_front() else { return };
            self.bytes -= oldest.event.size_estimate();
        }
    }

    /// The events after `seen`.
    pub fn since(&self, seen: u64) -> Replay<'_> {
        let oldest = self.events.front().map_or(self.last + 1, |entry| entry.seq);
        if seen > self.last || seen + 1 < oldest {
            return Replay::Unavailable;
        }
        Replay::Events(self.events.iter().skip_while(|entry| entry.seq <= seen).collect())
    }
}

#[cfg(test)]
mod tests {
    use tenure_meet_wire::Id;

    use super::*;
    use crate::meeting::LeaveReason;

    fn left(number: u8) -> Event {
        let id = Id::parse(&format!("018bcfe5-6800-7fff-bfff-ffffffffff{number:02x}")).unwrap();
        Event::Left { participant: id, reason: LeaveReason::Voluntary }
    }

    fn filled(count: u64) -> EventLog {
        let mut log = EventLog::default();
        (0..count).for_each(|number| log.append(left(number as u8)));
        log
    }

    fn seqs(missed: Replay<'_>) -> Option<Vec<u64>> {
        match missed {
            Replay::Events(entries) => Some(entries.iter().map(|entry| entry.seq).collect()),
            Replay::Unavailable => None,
        }
    }

    #[test]
    fn a_replay_is_complete_or_unavailable() {
        let log = filled(5);
        assert_eq!(seqs(log.since(0)), Some(vec![1, 2, 3, 4, 5]));
        assert_eq!(seqs(log.since(3)), Some(vec![4, 5]));
        assert_eq!(seqs(log.since(5)), Some(vec![]));
        assert_eq!(seqs(log.since(6)), None, "ahead of the log");
        assert_eq!(seqs(EventLog::default().since(0)), Some(vec![]));
        let long = filled(limits::EVENTS as u64 + 10);
        assert_eq!(seqs(long.since(9)), None);
        assert_eq!(seqs(long.since(10)).unwrap().len(), limits::EVENTS);
    }

    #[test]
    fn large_events_are_dropped_before_the_event_limit() {
        let mut log = EventLog::default();
        let id = Id::parse("018bcfe5-6800-7fff-bfff-ffffffffffff").unwrap();
        for _ in 0..200 {
            log.append(Event::Data {
                participant: id,
                topic: String::new(),
                payload: vec![0; 32 * 1024].into(),
                to: Vec::new(),
            });
        }
        assert!(log.events().count() < 140 && log.last() == 200);
    }

    #[test]
    fn a_restored_log_drops_events_before_a_gap() {
        let entries: Vec<LoggedEvent> = filled(6).events().cloned().collect();
        assert_eq!(EventLog::restore(6, entries.clone()), filled(6));
        let mut holed = entries.clone();
        holed.remove(2);
        assert_eq!(seqs(EventLog::restore(6, holed).since(3)), Some(vec![4, 5, 6]));
        assert_eq!(seqs(EventLog::restore(6, entries[..5].to_vec()).since(5)), None);
        assert_eq!(seqs(EventLog::restore(6, entries[..5].to_vec()).since(6)), Some(vec![]));
    }
}
