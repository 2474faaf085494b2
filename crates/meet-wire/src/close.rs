//! Why a session is closed, in a number that the client sees.

/// The application code of a close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseCode {
    /// An orderly end.
    Done,
    /// The same seat was taken by a newer connection.
    Superseded,
    /// This controller lost the meeting: ask where it is.
    Fenced,
    /// This controller is going away: ask where the meeting is.
    Draining,
    /// A host sent this participant away.
    Kicked,
    /// The client broke the protocol.
    Protocol,
    /// The client took its messages too slowly.
    TooSlow,
}

impl CloseCode {
    /// Every code.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Superseded,
        Self::Fenced,
        Self::Draining,
        Self::Kicked,
        Self::Protocol,
        Self::TooSlow,
    ];

    /// The number.
    pub const fn number(self) -> u32 {
        match self {
            Self::Done => 0,
            Self::Superseded => 4001,
            Self::Fenced => 4002,
            Self::Draining => 4003,
            Self::Kicked => 4004,
            Self::Protocol => 4005,
            Self::TooSlow => 4006,
        }
    }

    /// The code with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The word for logs and metrics, and the reason that the client sees.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Superseded => "superseded",
            Self::Fenced => "fenced",
            Self::Draining => "draining",
            Self::Kicked => "kicked",
            Self::Protocol => "protocol",
            Self::TooSlow => "too_slow",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_close_code_has_its_number_and_is_found_by_it() {
        let numbers = CloseCode::ALL.map(CloseCode::number);
        assert_eq!(numbers, [0, 4001, 4002, 4003, 4004, 4005, 4006]);
        for code in CloseCode::ALL {
            assert_eq!(CloseCode::from_number(code.number()), Some(code));
        }
        assert_eq!(CloseCode::from_number(4007), None);
    }
}
