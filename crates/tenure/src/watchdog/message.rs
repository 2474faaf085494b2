//! Messages between the holder and the watchdog, one per line.

use std::collections::VecDeque;
use std::fmt;

use tenure_lease::Tick;

use tenure_session_worker::StopTimes;

/// The longest valid line.
const MAX_LINE: usize = 256;

/// From the holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Instruction {
    /// The lease was renewed: new times.
    Until(StopTimes),
    /// Forward a signal.
    Signal(i32),
    /// The lease is lost.
    Kill,
}

/// From the watchdog.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WorkReport {
    /// The work started in this process group.
    Started(i32),
    /// The work could not be started, with this `errno`.
    Failed(i32),
    /// No process of the work is left.
    Ended {
        /// The exit code of the command, 128 + n if signal n ended it.
        code: u8,
        /// What ended it.
        why: EndReason,
    },
}

/// Why the work ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EndReason {
    /// The command exited, or received a signal from another process.
    Own,
    /// The kill time passed.
    Deadline,
    /// The holder sent `kill`.
    Killed,
    /// The holder exited.
    Orphaned,
}

impl EndReason {
    const ALL: [Self; 4] = [Self::Own, Self::Deadline, Self::Killed, Self::Orphaned];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Deadline => "deadline",
            Self::Killed => "told",
            Self::Orphaned => "orphaned",
        }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Until(times) => writeln!(f, "until {} {}", times.stop.as_nanos(), times.kill.as_nanos()),
            Self::Signal(number) => writeln!(f, "signal {number}"),
            Self::Kill => writeln!(f, "kill"),
        }
    }
}

impl Instruction {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["until", stop, kill] => Some(Self::Until(StopTimes { stop: tick(stop)?, kill: tick(kill)? })),
            ["signal", number] => Some(Self::Signal(number.parse().ok()?)),
            ["kill"] => Some(Self::Kill),
            _ => None,
        }
    }
}

impl fmt::Display for WorkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started(group) => writeln!(f, "started {group}"),
            Self::Failed(errno) => writeln!(f, "failed {errno}"),
            Self::Ended { code, why } => writeln!(f, "ended {code} {}", why.as_str()),
        }
    }
}

impl WorkReport {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split(' ').collect();
        match *words.as_slice() {
            ["started", group] => Some(Self::Started(group.parse().ok()?)),
            ["failed", errno] => Some(Self::Failed(errno.parse().ok()?)),
            ["ended", code, why] => {
                let why = EndReason::ALL.into_iter().find(|known| known.as_str() == why)?;
                Some(Self::Ended { code: code.parse().ok()?, why })
            }
            _ => None,
        }
    }
}

fn tick(text: &str) -> Option<Tick> {
    text.parse().ok().map(Tick::from_nanos)
}

/// Received bytes, split into lines.
#[derive(Default)]
pub(super) struct LineBuffer {
    bytes: VecDeque<u8>,
}

impl LineBuffer {
    /// Adds received bytes. Returns whether they can be valid lines.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.bytes.extend(bytes);
        self.bytes.len() <= MAX_LINE || self.bytes.contains(&b'\n')
    }

    /// The next complete line, without its end.
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
    fn messages_survive_their_text() {
        let mut lines = LineBuffer::default();
        let times = StopTimes { stop: Tick::from_nanos(7), kill: Tick::from_nanos(u64::MAX) };
        for instruction in [Instruction::Until(times), Instruction::Signal(15), Instruction::Kill] {
            assert!(lines.push(instruction.to_string().as_bytes()));
            assert_eq!(lines.pop().and_then(|line| Instruction::parse(&line)), Some(instruction));
        }
        for why in EndReason::ALL {
            for report in
                [WorkReport::Started(42), WorkReport::Failed(2), WorkReport::Ended { code: 143, why }]
            {
                assert!(lines.push(report.to_string().as_bytes()));
                assert_eq!(lines.pop().and_then(|line| WorkReport::parse(&line)), Some(report));
            }
        }
    }

    #[test]
    fn lines_are_complete_however_the_bytes_arrive() {
        let mut lines = LineBuffer::default();
        assert!(lines.push(b"ki"));
        assert_eq!(lines.pop(), None);
        assert!(lines.push(b"ll\nsignal 2\nun"));
        assert_eq!(lines.pop().as_deref(), Some("kill"));
        assert_eq!(lines.pop().as_deref(), Some("signal 2"));
        assert_eq!(lines.pop(), None);
    }

    #[test]
    fn malformed_lines_are_rejected() {
        for line in ["", "until 1", "until 1 -2", "kill 9", "signal x", "ended 300 own", "ended 0 luck"] {
            assert_eq!((Instruction::parse(line), WorkReport::parse(line)), (None, None), "{line:?}");
        }
        assert!(!LineBuffer::default().push(&[b'x'; MAX_LINE + 1]));
    }
}
