//! Reason codes of sessions.

use std::fmt;

macro_rules! string_enum {
    ($(#[$doc:meta])+ $name:ident { $($(#[$say:meta])+ $variant:ident = $name_str:literal,)+ }) => {
        $(#[$doc])+
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$say])+ $variant,)+
        }

        impl $name {
            /// All variants, in declaration order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name on the wire, in records and in metrics.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name_str,)+
                }
            }

            /// Parses a name.
            pub fn parse(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == name)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use string_enum;

string_enum! {
    /// Why a session ended.
    Reason {
        /// It has not ended.
        None = "R_NONE",
        /// The cause is unknown.
        Unknown = "R_UNKNOWN",
        /// The intent cannot be served, for example because its profile is not configured.
        BadRequest = "R_BAD_REQUEST",
        /// The channel or recording does not exist.
        NotFound = "R_NOT_FOUND",
        /// The channel or all tuners are leased to other sessions.
        LeaseBusy = "R_LEASE_BUSY",
        /// The receiver did not respond in time.
        TuneTimeout = "R_TUNE_TIMEOUT",
        /// A lease was lost.
        LeaseExpired = "R_LEASE_EXPIRED",
        /// The receiver rejected the channel.
        TuneFailed = "R_TUNE_FAILED",
        /// An invariant was violated.
        InvariantViolation = "R_INVARIANT_VIOLATION",
        /// The pipeline failed to start.
        PipelineStartFailed = "R_PIPELINE_START_FAILED",
        /// The pipeline or the worker exited unexpectedly.
        ProcessEnded = "R_PROCESS_ENDED",
        /// The pipeline produced no output.
        PackagerFailed = "R_PACKAGER_FAILED",
        /// The worker was shut down.
        Cancelled = "R_CANCELLED",
        /// No viewer was seen for too long.
        IdleTimeout = "R_IDLE_TIMEOUT",
        /// A client requested the stop.
        ClientStop = "R_CLIENT_STOP",
        /// The data from the receiver is corrupt, or it stopped coming.
        UpstreamCorrupt = "R_UPSTREAM_CORRUPT",
    }
}

string_enum! {
    /// The specific case of a reason.
    Detail {
        /// The channel is leased to another session.
        RejectedBusy = "REJECTED_BUSY",
        /// Every tuner is in use.
        RejectedNoTuner = "REJECTED_NO_TUNER",
        /// The lease of the channel or recording was lost.
        ServiceLeaseLost = "SERVICE_LEASE_LOST",
        /// The lease of the tuner was lost.
        TunerLeaseLost = "TUNER_LEASE_LOST",
        /// The receiver sent nothing for too long.
        UpstreamStalled = "UPSTREAM_STALLED",
        /// The receiver closed the stream.
        UpstreamEnded = "UPSTREAM_ENDED",
        /// No playlist with a segment was published in time.
        FirstSegmentTimeout = "FIRST_SEGMENT_TIMEOUT",
        /// The output exceeded its size limit, or the disk is full.
        DiskLimit = "DISK_LIMIT",
        /// The recording was played to its end.
        EndOfRecording = "END_OF_RECORDING",
        /// It was stuck in STOPPING and was ended by the sweeper.
        SweeperForcedStop = "D_SWEEPER_FORCED_STOP_STUCK",
        /// The previous worker ended while the session was running.
        WorkerRestarted = "WORKER_RESTARTED",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_is_unique_and_parses_back() {
        let reasons: BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
        let details: BTreeSet<_> = Detail::ALL.iter().map(|detail| detail.as_str()).collect();
        assert_eq!((reasons.len(), details.len()), (Reason::ALL.len(), Detail::ALL.len()));
        assert!(Reason::ALL.iter().all(|reason| Reason::parse(reason.as_str()) == Some(*reason)));
        assert!(Detail::ALL.iter().all(|detail| Detail::parse(detail.as_str()) == Some(*detail)));
        assert_eq!(Reason::parse("r_none"), None);
    }
}
