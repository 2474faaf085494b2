//! What the holder and the watchdog say to each other: one line each.

use std::collections::VecDeque;
use std::fmt;

use lease::Tick;

use super::plan::Times;

/// Longer lines are of nobody we know.
const LONGEST: usize = 256;

/// From the holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// The lease was prolonged.
    Until(Times),
    /// Pass a signal on.
    Signal(i32),
    /// The lease is lost.
    Kill,
}

/// From the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    /// The work runs, and this is its process group.
    Started(i32),
    /// The work could not be started, for this reason of the operating system.
    Failed(i32),
    /// Nothing of the work is left.
    Ended {
        /// The command's exit code, 128 + n if signal n ended it.
        code: u8,
        /// What ended it.
        why: Why,
    },
}

/// What ended the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// The command itself, or a signal of somebody else.
    Own,
    /// No later time came.
    Deadline,
    /// The holder said so.
    Told,
    /// The holder is gone.
    Orphaned,
}

impl Why {
    const ALL: [Self; 4] = [Self::Own, Self::Deadline, Self::Told, Self::Orphaned];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Deadline => "deadline",
            Self::Told => "told",
            Self::Orphaned => "orphaned",
        }
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(times) => writeln!(f, "until {} {}", times.stop.as_nanos(), times.kill.as_nanos()),
            Self::Signal(number) => writeln!(f, "signal {number}"),
            Self::Kill => writeln!(f, "kill"),
        }
    }
}

impl Order {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["until", stop, kill] => Some(Self::Until(Times { stop: tick(stop)?, kill: tick(kill)? })),
            ["signal", number] => Some(Self::Signal(number.parse().ok()?)),
            ["kill"] => Some(Self::Kill),
            _ => None,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(group) => writeln!(f, "started {group}"),
            Self::Failed(errno) => writeln!(f, "failed {errno}"),
            Self::Ended { code, why } => writeln!(f, "ended {code} {}", why.as_str()),
        }
    }
}

impl Report {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["started", group] => Some(Self::Started(group.parse().ok()?)),
            ["failed", errno] => Some(Self::Failed(errno.parse().ok()?)),
            ["ended", code, why] => {
                let why = Why::ALL.into_iter().find(|known| known.as_str() == why)?;
                Some(Self::Ended { code: code.parse().ok()?, why })
            }
            _ => None,
        }
    }
}

fn tick(text: &str) -> Option<Tick> {
    text.parse().ok().map(Tick::from_nanos)
}

/// Bytes that came, cut into lines.
#[derive(Default)]
pub(super) struct Inbox {
    bytes: VecDeque<u8>,
}

impl Inbox {
    /// Takes what came. Answers whether it can be what we speak.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend(bytes);
        self.bytes.len() <= LONGEST || self.bytes.contains(&b'\n')
    }

    /// The next whole line, without its end.
    pub(super) fn pop(&mut self) -> Option<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.bytes.drain(..=end).take(end).collect();
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        let mut inbox = Inbox::default();
        let times = Times { stop: Tick::from_nanos(7), kill: Tick::from_nanos(u64::MAX) };
        for order in [Order::Until(times), Order::Signal(15), Order::Kill] {
            assert!(inbox.push(order.to_string().as_bytes()));
            assert_eq!(inbox.pop().and_then(|line| Order::parse(&line)), Some(order));
        }
        for why in Why::ALL {
            for report in [Report::Started(42), Report::Failed(2), Report::Ended { code: 143, why }] {
                assert!(inbox.push(report.to_string().as_bytes()));
                assert_eq!(inbox.pop().and_then(|line| Report::parse(&line)), Some(report));
            }
        }
    }

    #[test]
    fn lines_come_whole_however_the_bytes_come() {
        let mut inbox = Inbox::default();
        assert!(inbox.push(b"ki"));
        assert_eq!(inbox.pop(), None);
        assert!(inbox.push(b"ll\nsignal 2\nun"));
        assert_eq!(inbox.pop().as_deref(), Some("kill"));
        assert_eq!(inbox.pop().as_deref(), Some("signal 2"));
        assert_eq!(inbox.pop(), None);
    }

    #[test]
    fn noise_is_refused() {
        for line in ["", "until 1", "until 1 -2", "kill 9", "signal x", "ended 300 own", "ended 0 luck"] {
            assert_eq!((Order::parse(line), Report::parse(line)), (None, None), "{line:?}");
        }
        assert!(!Inbox::default().push(&[b'x'; LONGEST + 1]));
    }
}
