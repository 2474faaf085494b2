//! Options of the worker.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use crate::{ProcessIdentity, WorkerError, limits};

/// The options of a worker.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tuner slots.
    pub slots: BTreeSet<u32>,
    /// The TTL of channel and tuner leases.
    pub lease_ttl: Duration,
    /// How often they are renewed; at most a third of the TTL.
    pub heartbeat: Duration,
    /// The TTL of the guard.
    pub guard_ttl: Duration,
    /// How often the guard is renewed; at most a third of its TTL.
    pub guard_heartbeat: Duration,
    /// How long a start waits for a guard whose holder may be alive. `None`: its TTL plus a grace period.
    pub guard_wait: Option<Duration>,
    /// A session without a viewer for this long is stopped.
    pub idle_timeout: Duration,
    /// The session lease that the API promises to clients. A session without a heartbeat ends no earlier than this, unless
    /// the idle timeout is shorter.
    pub session_lease_ttl: Duration,
    /// Without a new segment for this long the source counts as stalled.
    pub stall_timeout: Duration,
    /// The first segment must be published within this time after the start.
    pub first_segment_timeout: Duration,
    /// How long a stopping pipeline may take before it is killed.
    pub stop_timeout: Duration,
    /// How long a killed pipeline may take to exit before its tuner is withheld.
    pub gone_timeout: Duration,
    /// How long a session may be in STOPPING before it is ended by force.
    pub stuck_timeout: Duration,
    /// How long the output of a finished recording can still be played.
    pub drain_timeout: Duration,
    /// Most concurrent starts.
    pub starts: usize,
    /// Most concurrent stops.
    pub stops: usize,
    /// The interval of the sweep, which compares records with leases.
    pub reconcile: Duration,
    /// How long records of ended sessions are kept; at most a day.
    pub retention: Duration,
    /// The directory of the HLS output, with a subdirectory per session.
    pub output_dir: PathBuf,
    /// The source of the streams.
    pub source: Source,
    /// Most bytes in the output directory of a session.
    pub max_output_bytes: u64,
    /// The identity of this process, by which a successor on the same host can prove that it has ended. `None` where it
    /// cannot be read: then a successor waits.
    pub identity: Option<ProcessIdentity>,
    /// The host name, part of the guard's holder name.
    pub host: String,
    /// Exits the process by force if it still runs this long after the loss of the guard. `None` in tests.
    pub last_resort: Option<Duration>,
}

/// The source of the streams.
#[derive(Clone, Debug)]
pub enum Source {
    /// A receiver and a directory of recordings, through ffmpeg.
    Ffmpeg(Ffmpeg),
    /// A built-in test pattern with a clock and a tone.
    Pattern,
}

/// The ffmpeg source.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    /// The program, by name or path.
    pub program: PathBuf,
    /// The URL template of the receiver, containing `{serviceRef}`.
    pub receiver_url: String,
    /// The directory of recordings, if any.
    pub recordings_dir: Option<PathBuf>,
    /// The ffmpeg arguments of each profile.
    pub profiles: BTreeMap<String, Vec<String>>,
}

impl Options {
    /// The defaults for an output directory and a source.
    pub fn new(slots: BTreeSet<u32>, output_dir: PathBuf, source: Source) -> Self {
        let secs = Duration::from_secs;
        Self {
            slots,
            lease_ttl: secs(30),
            heartbeat: secs(10),
            guard_ttl: secs(15),
            guard_heartbeat: secs(5),
            guard_wait: None,
            idle_timeout: secs(300),
            session_lease_ttl: secs(120),
            stall_timeout: secs(12),
            first_segment_timeout: secs(30),
            stop_timeout: secs(5),
            gone_timeout: limits::GONE,
            stuck_timeout: limits::STUCK,
            drain_timeout: secs(600),
            starts: 10,
            stops: 10,
            reconcile: secs(5),
            retention: secs(24 * 3_600),
            output_dir,
            source,
            max_output_bytes: 8 << 30,
            identity: ProcessIdentity::of_this_process(),
            host: "worker".to_owned(),
            last_resort: None,
        }
    }

    /// Rejects values that are not positive or contradict each other.
    pub fn check(&self) -> Result<(), WorkerError> {
        let times = [
            ("lease_ttl", self.lease_ttl),
            ("heartbeat", self.heartbeat),
            ("guard_ttl", self.guard_ttl),
            ("guard_heartbeat", self.guard_heartbeat),
            ("idle_timeout", self.idle_timeout),
            ("session_lease_ttl", self.session_lease_ttl),
            ("stall_timeout", self.stall_timeout),
            ("first_segment_timeout", self.first_segment_timeout),
            ("stop_timeout", self.stop_timeout),
            ("drain_timeout", self.drain_timeout),
            ("reconcile", self.reconcile),
            ("retention", self.retention),
        ];
        for (field, time) in times {
            if time < Duration::from_millis(1) {
                return Err(WorkerError::options(field, "must be at least 1 ms"));
            }
        }
        for (field, heartbeat, ttl) in [
            ("heartbeat", self.heartbeat, self.lease_ttl),
            ("guard_heartbeat", self.guard_heartbeat, self.guard_ttl),
        ] {
            if heartbeat > ttl / 3 {
                let why = format!("{heartbeat:?} is more than a third of the TTL of {ttl:?}");
                return Err(WorkerError::options(field, why));
            }
        }
        if self.starts == 0 || self.stops == 0 {
            return Err(WorkerError::options("starts and stops", "must be at least 1"));
        }
        if self.retention > tenure_lease::Ttl::MAX.as_duration() {
            return Err(WorkerError::options("retention", "must be at most a day"));
        }
        if self.max_output_bytes == 0 {
            return Err(WorkerError::options("max_output_bytes", "must not be zero"));
        }
        match &self.source {
            Source::Pattern => Ok(()),
            Source::Ffmpeg(ffmpeg) => ffmpeg.check(),
        }
    }

    /// How long a session may be without a viewer.
    pub(crate) fn idle(&self) -> Duration {
        self.idle_timeout.min(self.session_lease_ttl)
    }
}

impl Ffmpeg {
    fn check(&self) -> Result<(), WorkerError> {
        let url = &self.receiver_url;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(WorkerError::options("receiver_url", "must start with http:// or https://"));
        }
        if !url.contains("{serviceRef}") {
            return Err(WorkerError::options("receiver_url", "must contain {serviceRef}"));
        }
        match self.profiles.is_empty() {
            true => Err(WorkerError::options("profiles", "must not be empty")),
            false => Ok(()),
        }
    }
}

/// The built-in profiles: `high`, `low` and `copy`.
pub fn default_profiles() -> BTreeMap<String, Vec<String>> {
    let high = "-map 0:v:0 -map 0:a:0? -vf yadif=deint=interlaced -c:v libx264 -preset veryfast -crf 21 -pix_fmt yuv420p \
                -force_key_frames expr:gte(t,n_forced*2) -c:a aac -b:a 192k -ac 2";
    let low = "-map 0:v:0 -map 0:a:0? -vf yadif=deint=interlaced,scale=-2:480 -c:v libx264 -preset veryfast -crf 28 \
               -pix_fmt yuv420p -force_key_frames expr:gte(t,n_forced*2) -c:a aac -b:a 96k -ac 2";
    let copy = "-map 0:v:0 -map 0:a:0? -c:v copy -c:a aac -b:a 192k -ac 2";
    let split = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    [("high", high), ("low", low), ("copy", copy)].map(|(name, args)| (name.to_owned(), split(args))).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options::new([0, 1].into(), PathBuf::from("/nowhere"), Source::Pattern)
    }

    fn ffmpeg(receiver_url: &str) -> Options {
        let source = Ffmpeg {
            program: "ffmpeg".into(),
            receiver_url: receiver_url.to_owned(),
            recordings_dir: None,
            profiles: default_profiles(),
        };
        Options { source: Source::Ffmpeg(source), ..options() }
    }

    #[test]
    fn invalid_options_are_rejected() {
        let zero = Duration::ZERO;
        assert_eq!(options().check(), Ok(()));
        assert_eq!(ffmpeg("http://receiver:8001/{serviceRef}").check(), Ok(()));
        let bad = [
            Options { lease_ttl: zero, ..options() },
            Options { heartbeat: zero, ..options() },
            Options { heartbeat: Duration::from_secs(11), ..options() },
            Options { guard_heartbeat: Duration::from_secs(6), ..options() },
            Options { stop_timeout: zero, ..options() },
            Options { starts: 0, ..options() },
            Options { stops: 0, ..options() },
            Options { retention: Duration::from_secs(86_401), ..options() },
            Options { max_output_bytes: 0, ..options() },
            ffmpeg("file:///etc/{serviceRef}"),
            ffmpeg("http://receiver:8001/"),
        ];
        for (row, options) in bad.iter().enumerate() {
            assert!(matches!(options.check(), Err(WorkerError::Options { .. })), "row {row}");
        }
    }
}
