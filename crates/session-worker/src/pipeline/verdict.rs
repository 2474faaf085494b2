//! What the end of an ffmpeg means.

use session::{Detail, Kind, Reason};

use super::News;
use crate::desk::Cause;
use crate::launch::Exit;
use crate::limits;

/// What follows from how it ended, whether there was a picture, and its last words.
pub(super) fn ended(exit: Exit, kind: Kind, published: bool, log: &str) -> News {
    if kind == Kind::Recording && exit == Exit::Code(0) && published {
        return News::Drained;
    }
    let (reason, detail) = match exit {
        Exit::Deadline => (Reason::LeaseExpired, None),
        _ if has(log, &["No space left on device", "Disk quota exceeded"]) => {
            (Reason::PackagerFailed, Some(Detail::DiskLimit))
        }
        Exit::Code(0) if published => (Reason::ProcessEnded, Some(Detail::UpstreamEnded)),
        _ if published => (Reason::ProcessEnded, None),
        _ if has(log, &["404 Not Found", "HTTP error 404", "No such file or directory"]) => {
            (Reason::NotFound, None)
        }
        _ if has(log, &["timed out", "Operation timed out"]) => (Reason::TuneTimeout, None),
        _ if has(log, &REFUSED) => (Reason::TuneFailed, None),
        Exit::Code(0) => (Reason::PackagerFailed, Some(Detail::UpstreamEnded)),
        _ if has(log, &CORRUPT) => (Reason::UpstreamCorrupt, None),
        Exit::Code(_) => (Reason::PipelineStartFailed, None),
        Exit::Signal(_) | Exit::Unknown => (Reason::ProcessEnded, None),
    };
    let how = match exit {
        Exit::Code(code) => format!("ffmpeg ended with {code}"),
        Exit::Signal(number) => format!("ffmpeg was ended by signal {number}"),
        Exit::Deadline => "the time of its leases was over".to_owned(),
        Exit::Unknown => "ffmpeg ended".to_owned(),
    };
    let words = match words(log) {
        Some(last) => format!("{how}: {last}"),
        None => how,
    };
    News::Failed(Cause::new(reason, detail, words))
}

const REFUSED: [&str; 7] = [
    "Connection refused",
    "Network is unreachable",
    "No route to host",
    "Server returned",
    "HTTP error",
    "Failed to resolve hostname",
    "Connection reset",
];
const CORRUPT: [&str; 4] = [
    "Invalid data found",
    "does not contain any stream",
    "could not find codec parameters",
    "matches no streams",
];

fn has(log: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| log.contains(sign))
}

/// The last lines of a log for a record: bounded, in one line, and without what a URL may carry for the receiver alone.
pub(super) fn words(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join("; ");
    let plain: String = hide(&last).chars().filter(|c| !c.is_control()).collect();
    let mut cut = plain.len().saturating_sub(limits::WORDS);
    while !plain.is_char_boundary(cut) {
        cut += 1;
    }
    (!plain.is_empty()).then(|| plain[cut..].to_owned())
}

/// Takes names and passwords out of URLs.
fn hide(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let authority = after.split(['/', ' ', '\'', '"', '?']).next().unwrap_or_default();
        shown += before;
        shown += "://";
        rest = match authority.rfind('@') {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_its_reason() {
        use Exit::{Code, Deadline, Signal};
        use Kind::{Live, Recording};
        let table = [
            (Code(0), Live, true, "", Reason::ProcessEnded, Some(Detail::UpstreamEnded)),
            (Code(0), Live, false, "", Reason::PackagerFailed, Some(Detail::UpstreamEnded)),
            (Code(0), Recording, false, "", Reason::PackagerFailed, Some(Detail::UpstreamEnded)),
            (Code(1), Live, false, "Server returned 404 Not Found", Reason::NotFound, None),
            (Code(1), Recording, false, "x.ts: No such file or directory", Reason::NotFound, None),
            (Code(1), Live, false, "Server returned 503 Service Unavailable", Reason::TuneFailed, None),
            (Code(1), Live, false, "Connection refused", Reason::TuneFailed, None),
            (Code(1), Live, false, "Connection timed out", Reason::TuneTimeout, None),
            (Code(1), Live, false, "Invalid data found when processing input", Reason::UpstreamCorrupt, None),
            (Code(1), Live, false, "Unrecognized option 'x'", Reason::PipelineStartFailed, None),
            (Code(1), Live, true, "Connection refused", Reason::ProcessEnded, None),
            (Code(1), Live, true, "No space left on device", Reason::PackagerFailed, Some(Detail::DiskLimit)),
            (Signal(9), Live, true, "", Reason::ProcessEnded, None),
            (Deadline, Live, true, "", Reason::LeaseExpired, None),
        ];
        for (exit, kind, published, log, reason, detail) in table {
            let News::Failed(cause) = ended(exit, kind, published, log) else { panic!("{exit:?} {log}") };
            assert_eq!((cause.reason, cause.detail), (reason, detail), "{exit:?} {published} {log}");
        }
        assert_eq!(ended(Code(0), Recording, true, ""), News::Drained);
    }

    #[test]
    fn last_words_are_short_and_hide_what_a_url_carries() {
        let log = "one\ntwo\nhttp://root:secret@10.0.0.5:8001/1:0:1: Connection refused\n\n";
        let said = words(log).unwrap();
        assert!(!said.contains("secret") && said.contains("http://10.0.0.5:8001/1:0:1:"), "{said}");
        assert!(words(&"ä".repeat(5_000)).unwrap().len() <= limits::WORDS);
        assert_eq!(words(" \n"), None);
    }
}
