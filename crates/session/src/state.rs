//! The session state machine.

use std::fmt;

use crate::reason::string_enum;

string_enum! {
    /// The lifecycle state of a session.
    SessionState {
        /// Recorded; no worker has picked it up.
        New = "NEW",
        /// A worker picked it up and is acquiring its leases.
        Starting = "STARTING",
        /// Its pipeline is running and has not published a segment yet.
        Priming = "PRIMING",
        /// It can be played.
        Ready = "READY",
        /// Its source ended; the existing output can still be played.
        Draining = "DRAINING",
        /// It is being stopped.
        Stopping = "STOPPING",
        /// It ended as requested.
        Stopped = "STOPPED",
        /// It ended with an error.
        Failed = "FAILED",
        /// It was stopped by a shutdown before it could be played.
        Cancelled = "CANCELLED",
    }
}

string_enum! {
    /// An event in the life of a session.
    SessionEvent {
        /// A worker picks it up.
        Pick = "pick",
        /// All leases are held and the pipeline has started.
        Prime = "prime",
        /// The playlist and the first segment are published.
        Publish = "publish",
        /// The source ended.
        Drain = "drain",
        /// A client or the sweeper requests its stop.
        RequestStop = "request_stop",
        /// The pipeline has ended and the leases are released.
        End = "end",
        /// It cannot continue.
        Fail = "fail",
        /// The worker shuts down.
        Cancel = "cancel",
        /// A restarted worker finds it in STARTING and starts it again.
        Reset = "reset",
        /// The sweeper ends a session that is stuck in STOPPING.
        Force = "force",
    }
}

string_enum! {
    /// The state of a session's pipeline.
    PipelineState {
        /// There is no pipeline.
        Init = "INIT",
        /// Its leases are held.
        LeaseAcquired = "LEASE_ACQUIRED",
        /// The channel was requested from the receiver.
        TuneRequested = "TUNE_REQUESTED",
        /// The receiver responded.
        Tuned = "TUNED",
        /// The process is being started.
        FfmpegStarting = "FFMPEG_STARTING",
        /// The process is running.
        FfmpegRunning = "FFMPEG_RUNNING",
        /// The playlist exists.
        PackagerReady = "PACKAGER_READY",
        /// It can be played.
        Serving = "SERVING",
        /// It failed.
        Fail = "FAIL",
        /// Its stop was requested.
        StopRequested = "STOP_REQUESTED",
        /// It has ended.
        Stopped = "STOPPED",
    }
}

/// The effect of an event on a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transition {
    /// The session moves to this state.
    To(SessionState),
    /// The event is legal and changes nothing.
    Unchanged,
    /// The event is illegal in this state: a bug in the caller. Nothing changes.
    Illegal,
}

impl SessionState {
    /// Whether the session has ended.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed | Self::Cancelled)
    }

    /// Whether a session in this state may hold a tuner, so that its claim is compared with the leases.
    pub const fn may_hold(self) -> bool {
        matches!(self, Self::Starting | Self::Priming | Self::Ready | Self::Draining)
    }

    /// The transition table.
    pub const fn transition(self, event: SessionEvent) -> Transition {
        use Transition::{Illegal, To, Unchanged};
        match (self, event) {
            (Self::New, SessionEvent::Pick) => To(Self::Starting),
            (Self::Starting, SessionEvent::Prime) => To(Self::Priming),
            (Self::Priming, SessionEvent::Publish) => To(Self::Ready),
            // A short recording may end before its first segment is noticed.
            (Self::Priming | Self::Ready, SessionEvent::Drain) => To(Self::Draining),

            (
                Self::New | Self::Starting | Self::Priming | Self::Ready | Self::Draining,
                SessionEvent::RequestStop,
            ) => To(Self::Stopping),
            (Self::Stopping, SessionEvent::RequestStop) => Unchanged,

            (Self::Draining | Self::Stopping, SessionEvent::End) => To(Self::Stopped),
            (Self::Stopping, SessionEvent::Force) => To(Self::Stopped),

            (Self::Starting | Self::Priming, SessionEvent::Cancel) => To(Self::Cancelled),
            (Self::Ready | Self::Draining | Self::Stopping, SessionEvent::Cancel) => To(Self::Stopped),
            // No worker has it; the next one picks it up.
            (Self::New, SessionEvent::Cancel) => Unchanged,

            (Self::Starting, SessionEvent::Reset) => To(Self::New),
            (Self::New, SessionEvent::Reset) => Unchanged,

            (
                Self::New | Self::Starting | Self::Priming | Self::Ready | Self::Draining | Self::Stopping,
                SessionEvent::Fail,
            ) => To(Self::Failed),

            // Late events do not change a session that has ended.
            (
                Self::Stopped | Self::Failed | Self::Cancelled,
                SessionEvent::RequestStop | SessionEvent::Cancel | SessionEvent::Force,
            ) => Unchanged,

            _ => Illegal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SessionEvent::*;
    use Transition::{Illegal as X, To, Unchanged as S};

    /// Rows are states and columns are events, in declaration order.
    #[test]
    fn every_pair_of_state_and_event_is_decided() {
        const fn to(state: SessionState) -> Transition {
            To(state)
        }
        let (new, starting, priming) =
            (to(SessionState::New), to(SessionState::Starting), to(SessionState::Priming));
        let (ready, draining, stopping) =
            (to(SessionState::Ready), to(SessionState::Draining), to(SessionState::Stopping));
        let (stopped, failed, cancelled) =
            (to(SessionState::Stopped), to(SessionState::Failed), to(SessionState::Cancelled));
        let columns = [Pick, Prime, Publish, Drain, RequestStop, End, Fail, Cancel, Reset, Force];
        let table = [
            (SessionState::New, [starting, X, X, X, stopping, X, failed, S, S, X]),
            (SessionState::Starting, [X, priming, X, X, stopping, X, failed, cancelled, new, X]),
            (SessionState::Priming, [X, X, ready, draining, stopping, X, failed, cancelled, X, X]),
            (SessionState::Ready, [X, X, X, draining, stopping, X, failed, stopped, X, X]),
            (SessionState::Draining, [X, X, X, X, stopping, stopped, failed, stopped, X, X]),
            (SessionState::Stopping, [X, X, X, X, S, stopped, failed, stopped, X, stopped]),
            (SessionState::Stopped, [X, X, X, X, S, X, X, S, X, S]),
            (SessionState::Failed, [X, X, X, X, S, X, X, S, X, S]),
            (SessionState::Cancelled, [X, X, X, X, S, X, X, S, X, S]),
        ];
        assert_eq!(columns, SessionEvent::ALL);
        assert_eq!(table.map(|(state, _)| state), SessionState::ALL);
        for (state, row) in table {
            for (event, expected) in columns.into_iter().zip(row) {
                assert_eq!(state.transition(event), expected, "{state} {event}");
            }
        }
    }

    #[test]
    fn nothing_leaves_a_terminal_state() {
        for state in SessionState::ALL.iter().filter(|state| state.is_terminal()) {
            for event in SessionEvent::ALL {
                assert!(!matches!(state.transition(*event), To(_)), "{state} {event}");
            }
        }
    }

    #[test]
    fn every_active_state_can_fail() {
        for state in SessionState::ALL.iter().filter(|state| !state.is_terminal()) {
            assert_eq!(state.transition(Fail), To(SessionState::Failed), "{state}");
        }
    }
}
