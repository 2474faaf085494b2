//! How a worker works.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use crate::{Fatal, Identity, limits};

/// The settings of a worker.
#[derive(Clone, Debug)]
pub struct Options {
    /// The tuners there are.
    pub slots: BTreeSet<u32>,
    /// How long a lease of a channel or tuner lasts without renewal.
    pub lease_ttl: Duration,
    /// How often these are renewed; at most a third of the TTL.
    pub heartbeat: Duration,
    /// How long the guard lasts without renewal.
    pub guard_ttl: Duration,
    /// How often the guard is renewed; at most a third of its TTL.
    pub guard_heartbeat: Duration,
    /// How long a start waits for a guard that may still be alive. None: its TTL, and a little more.
    pub guard_wait: Option<Duration>,
    /// A session that nobody watches for this long ends.
    pub idle_timeout: Duration,
    /// What the door promises a client between two heartbeats; a session ends no earlier than this without one, unless
    /// the idle timeout is shorter.
    pub session_lease_ttl: Duration,
    /// No new segment for this long: upstream is stalled.
    pub stall_timeout: Duration,
    /// No playlist with a segment within this time after the start: no picture comes.
    pub first_segment_timeout: Duration,
    /// How long a pipeline that was asked to stop may take before it is killed.
    pub stop_timeout: Duration,
    /// How long a pipeline that was killed may take to be gone before its tuner is kept out.
    pub gone_timeout: Duration,
    /// How long a session may be STOPPING before it is over by force.
    pub stuck_timeout: Duration,
    /// How long what is left of a recording that ended can still be watched, at most.
    pub drain_timeout: Duration,
    /// Most sessions that are being started at once.
    pub starts: usize,
    /// Most sessions that are being stopped at once.
    pub stops: usize,
    /// How often records and leases are compared.
    pub reconcile: Duration,
    /// How long records of sessions that ended are kept, at most a day.
    pub retention: Duration,
    /// Where the pictures go: a folder per session.
    pub output_dir: PathBuf,
    /// Where the pictures come from.
    pub source: Source,
    /// Most bytes in the folder of one session.
    pub max_output_bytes: u64,
    /// Who this process is, so that a successor on the same host can prove that it ended. None where that cannot be
    /// read: then a successor waits.
    pub identity: Option<Identity>,
    /// The name of this host in the name of the guard's holder.
    pub host: String,
    /// Ends the process by force when it still runs this long after the guard was lost. None in tests, which go on.
    pub last_resort: Option<Duration>,
}

/// Where pictures come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A receiver and a folder of recordings, through ffmpeg.
    Ffmpeg(Ffmpeg),
    /// A built-in test picture with a clock and a tone; needs nothing.
    Pattern,
}

/// How ffmpeg is used.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    /// The program, by name or path.
    pub program: PathBuf,
    /// The receiver, with `{serviceRef}` in it.
    pub receiver_url: String,
    /// Where recordings are; none when there are none.
    pub recordings_dir: Option<PathBuf>,
    /// The arguments that each profile stands for.
    pub profiles: BTreeMap<String, Vec<String>>,
}

impl Options {
    /// The defaults for a folder and a source.
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
            identity: Identity::of_this_process(),
            host: "worker".to_owned(),
            last_resort: None,
        }
    }

    /// Refuses settings that are not positive or whose relations are wrong.
    pub fn check(&self) -> Result<(), Fatal> {
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
                return Err(Fatal::options(field, "must be at least a millisecond"));
            }
        }
        for (field, heartbeat, ttl) in [
            ("heartbeat", self.heartbeat, self.lease_ttl),
            ("guard_heartbeat", self.guard_heartbeat, self.guard_ttl),
        ] {
            if heartbeat > ttl / 3 {
                let why = format!("{heartbeat:?} is more than a third of the TTL of {ttl:?}");
                return Err(Fatal::options(field, why));
            }
        }
        if self.starts == 0 || self.stops == 0 {
            return Err(Fatal::options("starts and stops", "must be at least one at once"));
        }
        if self.retention > lease::Ttl::MAX.as_duration() {
            return Err(Fatal::options("retention", "a day is the most"));
        }
        if self.max_output_bytes == 0 {
            return Err(Fatal::options("max_output_bytes", "must not be zero"));
        }
        match &self.source {
            Source::Pattern => Ok(()),
            Source::Ffmpeg(ffmpeg) => ffmpeg.check(),
        }
    }

    /// How long nobody may watch before a session ends.
    pub(crate) fn idle(&self) -> Duration {
        self.idle_timeout.min(self.session_lease_ttl)
    }
}

impl Ffmpeg {
    fn check(&self) -> Result<(), Fatal> {
        let url = &self.receiver_url;
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(Fatal::options("receiver_url", "must begin with http:// or https://"));
        }
        if !url.contains("{serviceRef}") {
            return Err(Fatal::options("receiver_url", "has no {serviceRef}, so all channels would be one"));
        }
        match self.profiles.is_empty() {
            true => Err(Fatal::options("profiles", "there are none")),
            false => Ok(()),
        }
    }
}

/// The profiles there are unless the settings say otherwise: `high`, `low` and `copy`.
pub fn default_profiles() -> BTreeMap<String, Vec<String>> {
    let high = "-map 0:v:0 -map 0:a:0? -vf yadif=deint=interlaced -c:v libx264 -preset veryfast -crf 21 -pix_fmt yuv420p \
                -force_key_frames expr:gte(t,n_forced*2) -c:a aac -b:a 192k -ac 2";
    let low = "-map 0:v:0 -map 0:a:0? -vf yadif=deint=interlaced,scale=-2:480 -c:v libx264 -preset veryfast -crf 28 \
               -pix_fmt yuv420p -force_key_frames expr:gte(t,n_forced*2) -c:a aac -b:a 96k -ac 2";
    let copy = "-map 0:v:0 -map 0:a:0? -c:v copy -c:a aac -b:a 192k -ac 2";
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    [("high", high), ("low", low), ("copy", copy)].map(|(name, args)| (name.to_owned(), words(args))).into()
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
    fn settings_that_cannot_be_meant_are_refused() {
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
            assert!(matches!(options.check(), Err(Fatal::Options { .. })), "row {row}");
        }
    }
}
