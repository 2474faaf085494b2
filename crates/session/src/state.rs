//! What may follow what.

use std::fmt;

use crate::reason::words;

words! {
    /// Where a session is in its life.
    State {
        /// Recorded, and nobody has taken it up.
        New = "NEW",
        /// A worker took it up and takes its leases.
        Starting = "STARTING",
        /// Its pipeline runs and has shown nothing yet.
        Priming = "PRIMING",
        /// It can be watched.
        Ready = "READY",
        /// Its source ended; what is there can still be watched.
        Draining = "DRAINING",
        /// It is being ended.
        Stopping = "STOPPING",
        /// It ended as somebody wanted.
        Stopped = "STOPPED",
        /// It ended as nobody wanted.
        Failed = "FAILED",
        /// It was ended before it could be watched.
        Cancelled = "CANCELLED",
    }
}

words! {
    /// What can happen to a session.
    Event {
        /// A worker takes it up.
        Pick = "pick",
        /// All leases are held and the pipeline was started.
        Prime = "prime",
        /// The playlist and a first segment are there.
        Publish = "publish",
        /// The source ended by itself.
        Drain = "drain",
        /// Somebody, or the sweeper, wants its end.
        AskStop = "ask_stop",
        /// The pipeline is gone and the leases are given back.
        End = "end",
        /// It cannot go on.
        Fail = "fail",
        /// The worker ends in an orderly way.
        Cancel = "cancel",
        /// A worker finds it half started after a restart, and starts again.
        Reset = "reset",
        /// The sweeper ends what hangs while stopping.
        Force = "force",
    }
}

words! {
    /// How far the pipeline of a session is.
    Pipeline {
        /// There is none.
        Init = "INIT",
        /// Its leases are held.
        LeaseAcquired = "LEASE_ACQUIRED",
        /// The receiver was asked.
        TuneRequested = "TUNE_REQUESTED",
        /// The receiver answered.
        Tuned = "TUNED",
        /// The process is being started.
        FfmpegStarting = "FFMPEG_STARTING",
        /// The process runs.
        FfmpegRunning = "FFMPEG_RUNNING",
        /// The playlist is there.
        PackagerReady = "PACKAGER_READY",
        /// It can be watched.
        Serving = "SERVING",
        /// It failed.
        Fail = "FAIL",
        /// It was told to stop.
        StopRequested = "STOP_REQUESTED",
        /// It is gone.
        Stopped = "STOPPED",
    }
}

/// What an event does to a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The session moves on.
    To(State),
    /// The event is allowed and changes nothing: it was true before.
    Stay,
    /// The event cannot happen here; nothing changes, and somebody has a defect.
    Illegal,
}

impl State {
    /// Whether nothing follows any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Stopped | Self::Failed | Self::Cancelled)
    }

    /// Whether a session here may own a tuner, so that its claim is judged.
    pub const fn may_hold(self) -> bool {
        matches!(self, Self::Starting | Self::Priming | Self::Ready | Self::Draining)
    }

    /// The one table of what follows what.
    pub const fn step(self, event: Event) -> Step {
        use Step::{Illegal, Stay, To};
        match (self, event) {
            (Self::New, Event::Pick) => To(Self::Starting),
            (Self::Starting, Event::Prime) => To(Self::Priming),
            (Self::Priming, Event::Publish) => To(Self::Ready),
            // A short recording may be over before its first segment was seen.
            (Self::Priming | Self::Ready, Event::Drain) => To(Self::Draining),

            (Self::New | Self::Starting | Self::Priming | Self::Ready | Self::Draining, Event::AskStop) => {
                To(Self::Stopping)
            }
            (Self::Stopping, Event::AskStop) => Stay,

            (Self::Draining | Self::Stopping, Event::End) => To(Self::Stopped),
            (Self::Stopping, Event::Force) => To(Self::Stopped),

            (Self::Starting | Self::Priming, Event::Cancel) => To(Self::Cancelled),
            (Self::Ready | Self::Draining | Self::Stopping, Event::Cancel) => To(Self::Stopped),
            // Nobody has it: the next worker takes it up.
            (Self::New, Event::Cancel) => Stay,

            (Self::Starting, Event::Reset) => To(Self::New),
            (Self::New, Event::Reset) => Stay,

            (
                Self::New | Self::Starting | Self::Priming | Self::Ready | Self::Draining | Self::Stopping,
                Event::Fail,
            ) => To(Self::Failed),

            // Whatever comes late to what is over changes nothing.
            (
                Self::Stopped | Self::Failed | Self::Cancelled,
                Event::AskStop | Event::Cancel | Event::Force,
            ) => Stay,

            _ => Illegal,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Event::*;
    use Step::{Illegal as X, Stay as S, To};

    /// Rows are states, columns events, in the order of their lists.
    #[test]
    fn every_pair_of_state_and_event_is_decided() {
        const fn to(state: State) -> Step {
            To(state)
        }
        let (new, starting, priming) = (to(State::New), to(State::Starting), to(State::Priming));
        let (ready, draining, stopping) = (to(State::Ready), to(State::Draining), to(State::Stopping));
        let (stopped, failed, cancelled) = (to(State::Stopped), to(State::Failed), to(State::Cancelled));
        let columns = [Pick, Prime, Publish, Drain, AskStop, End, Fail, Cancel, Reset, Force];
        let table = [
            (State::New, [starting, X, X, X, stopping, X, failed, S, S, X]),
            (State::Starting, [X, priming, X, X, stopping, X, failed, cancelled, new, X]),
            (State::Priming, [X, X, ready, draining, stopping, X, failed, cancelled, X, X]),
            (State::Ready, [X, X, X, draining, stopping, X, failed, stopped, X, X]),
            (State::Draining, [X, X, X, X, stopping, stopped, failed, stopped, X, X]),
            (State::Stopping, [X, X, X, X, S, stopped, failed, stopped, X, stopped]),
            (State::Stopped, [X, X, X, X, S, X, X, S, X, S]),
            (State::Failed, [X, X, X, X, S, X, X, S, X, S]),
            (State::Cancelled, [X, X, X, X, S, X, X, S, X, S]),
        ];
        assert_eq!(columns, Event::ALL);
        assert_eq!(table.map(|(state, _)| state), State::ALL);
        for (state, row) in table {
            for (event, expected) in columns.into_iter().zip(row) {
                assert_eq!(state.step(event), expected, "{state} {event}");
            }
        }
    }

    #[test]
    fn nothing_leaves_a_terminal_state() {
        for state in State::ALL.iter().filter(|state| state.is_terminal()) {
            for event in Event::ALL {
                assert!(!matches!(state.step(*event), To(_)), "{state} {event}");
            }
        }
    }

    #[test]
    fn whatever_happens_a_session_can_still_end() {
        for state in State::ALL.iter().filter(|state| !state.is_terminal()) {
            assert_eq!(state.step(Fail), To(State::Failed), "{state}");
        }
    }
}
