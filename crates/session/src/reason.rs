//! Why a session is as it is, in words that programs match on.

use std::fmt;

macro_rules! words {
    ($(#[$doc:meta])+ $name:ident { $($(#[$say:meta])+ $variant:ident = $word:literal,)+ }) => {
        $(#[$doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$say])+ $variant,)+
        }

        impl $name {
            /// Every one, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word on the wire, in records and in metrics.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)+
                }
            }

            /// The one with this word.
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.word() == word)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.word())
            }
        }
    };
}

pub(crate) use words;

words! {
    /// Why a session ended, or none yet.
    Reason {
        /// It did not.
        None = "R_NONE",
        /// Nobody knows.
        Unknown = "R_UNKNOWN",
        /// The wish cannot be granted as it is, such as a profile that is not configured.
        BadRequest = "R_BAD_REQUEST",
        /// There is no such channel or recording.
        NotFound = "R_NOT_FOUND",
        /// Somebody else has the channel or all tuners.
        LeaseBusy = "R_LEASE_BUSY",
        /// The receiver did not answer in time.
        TuneTimeout = "R_TUNE_TIMEOUT",
        /// A lease was lost.
        LeaseExpired = "R_LEASE_EXPIRED",
        /// The receiver refused.
        TuneFailed = "R_TUNE_FAILED",
        /// Something that must always hold did not.
        InvariantViolation = "R_INVARIANT_VIOLATION",
        /// The pipeline could not be started.
        PipelineStartFailed = "R_PIPELINE_START_FAILED",
        /// The pipeline, or the orchestrator itself, ended by itself.
        ProcessEnded = "R_PROCESS_ENDED",
        /// No picture came out.
        PackagerFailed = "R_PACKAGER_FAILED",
        /// The orchestrator was told to end.
        Cancelled = "R_CANCELLED",
        /// Nobody watched.
        IdleTimeout = "R_IDLE_TIMEOUT",
        /// A client asked for it.
        ClientStop = "R_CLIENT_STOP",
        /// What the receiver sends cannot be read, or nothing comes any more.
        UpstreamCorrupt = "R_UPSTREAM_CORRUPT",
    }
}

words! {
    /// Which case of a reason.
    Detail {
        /// The channel is taken.
        RejectedBusy = "REJECTED_BUSY",
        /// Every tuner is taken.
        RejectedNoTuner = "REJECTED_NO_TUNER",
        /// The lease of the channel or recording was lost.
        ServiceLeaseLost = "SERVICE_LEASE_LOST",
        /// The lease of the tuner was lost.
        TunerLeaseLost = "TUNER_LEASE_LOST",
        /// Nothing came from upstream for too long.
        UpstreamStalled = "UPSTREAM_STALLED",
        /// Upstream closed.
        UpstreamEnded = "UPSTREAM_ENDED",
        /// There was no playlist with a segment in time.
        FirstSegmentTimeout = "FIRST_SEGMENT_TIMEOUT",
        /// The output grew beyond its bound, or the disk is full.
        DiskLimit = "DISK_LIMIT",
        /// The recording was played to its end.
        EndOfRecording = "END_OF_RECORDING",
        /// It hung while stopping and was swept away.
        SweeperForcedStop = "D_SWEEPER_FORCED_STOP_STUCK",
        /// The worker before this one ended in the middle of it.
        WorkerRestarted = "WORKER_RESTARTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_word_is_there_once_and_is_read_back() {
        let reasons: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.word()).collect();
        let details: BTreeSet<_> = Detail::ALL.iter().map(|detail| detail.word()).collect();
        assert_eq!((reasons.len(), details.len()), (Reason::ALL.len(), Detail::ALL.len()));
        assert!(Reason::ALL.iter().all(|reason| Reason::parse(reason.word()) == Some(*reason)));
        assert!(Detail::ALL.iter().all(|detail| Detail::parse(detail.word()) == Some(*detail)));
        assert_eq!(Reason::parse("r_none"), None);
    }
}
