//! Maps the exit of ffmpeg to a reason.

use tenure_session::{Detail, Reason, TargetKind};

use super::PipelineEvent;
use crate::launch::Exit;
use crate::limits;
use crate::record::Cause;

/// Classifies an exit by its status, whether output was published, and the end of the log.
pub(super) fn classify_exit(exit: Exit, kind: TargetKind, published: bool, log: &str) -> PipelineEvent {
    if kind == TargetKind::Recording && exit == Exit::Code(0) && published {
        return PipelineEvent::Drained;
    }
    let (reason, detail) = match exit {
        Exit::Deadline => (Reason::LeaseExpired, None),
        _ if log_contains(log, &["No space left on device", "Disk quota exceeded"]) => {
            (Reason::PackagerFailed, Some(Detail::DiskLimit))
        }
        Exit::Code(0) if published => (Reason::ProcessEnded, Some(Detail::UpstreamEnded)),
        _ if published => (Reason::ProcessEnded, None),
        _ if log_contains(log, &["404 Not Found", "HTTP error 404", "No such file or directory"]) => {
            (Reason::NotFound, None)
        }
        _ if log_contains(log, &["timed out", "Operation timed out"]) => (Reason::TuneTimeout, None),
        _ if log_contains(log, &REFUSED) => (Reason::TuneFailed, None),
        Exit::Code(0) => (Reason::PackagerFailed, Some(Detail::UpstreamEnded)),
        _ if log_contains(log, &CORRUPT) => (Reason::UpstreamCorrupt, None),
        Exit::Code(_) => (Reason::PipelineStartFailed, None),
        Exit::Signal(_) | Exit::Unknown => (Reason::ProcessEnded, None),
    };
    let how = match exit {
        Exit::Code(code) => format!("ffmpeg exited with code {code}"),
        Exit::Signal(number) => format!("ffmpeg was terminated by signal {number}"),
        Exit::Deadline => "the deadline of its leases passed".to_owned(),
        Exit::Unknown => "ffmpeg exited".to_owned(),
    };
    let message = match summarize_log(log) {
        Some(last) => format!("{how}: {last}"),
        None => how,
    };
    PipelineEvent::Failed(Cause::new(reason, detail, message))
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

fn log_contains(log: &str, signs: &[&str]) -> bool {
    signs.iter().any(|sign| log.contains(sign))
}

/// The last lines of a log as one bounded line, without credentials in URLs.
pub(super) fn summarize_log(log: &str) -> Option<String> {
    let lines: Vec<&str> = log.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines[lines.len().saturating_sub(4)..].join("; ");
    let plain: String = strip_credentials(&last).chars().filter(|c| !c.is_control()).collect();
    let mut cut = plain.len().saturating_sub(limits::MESSAGE);
    while !plain.is_char_boundary(cut) {
        cut += 1;
    }
    (!plain.is_empty()).then(|| plain[cut..].to_owned())
}

/// Removes user names and passwords from URLs.
fn strip_credentials(text: &str) -> String {
    let mut stripped = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        let authority = after.split(['/', ' ', '\'', '"', '?']).next().unwrap_or_default();
        stripped += before;
        stripped += "://";
        rest = match authority.rfind('@') {
            Some(at) => &after[at + 1..],
            None => after,
        };
    }
    stripped + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_has_a_reason() {
        use Exit::{Code, Deadline, Signal};
        use TargetKind::{Live, Recording};
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
            let PipelineEvent::Failed(cause) = classify_exit(exit, kind, published, log) else {
                panic!("{exit:?} {log}")
            };
            assert_eq!((cause.reason, cause.detail), (reason, detail), "{exit:?} {published} {log}");
        }
        assert_eq!(classify_exit(Code(0), Recording, true, ""), PipelineEvent::Drained);
    }

    #[test]
    fn log_summaries_are_bounded_and_contain_no_credentials() {
        let log = "one\ntwo\nhttp://root:secret@10.0.0.5:8001/1:0:1: Connection refused\n\n";
        let summary = summarize_log(log).unwrap();
        assert!(!summary.contains("secret") && summary.contains("http://10.0.0.5:8001/1:0:1:"), "{summary}");
        assert!(summarize_log(&"ä".repeat(5_000)).unwrap().len() <= limits::MESSAGE);
        assert_eq!(summarize_log(" \n"), None);
    }
}
