//! Close codes: why a session ended, as the client sees it.

/// The application code of a close.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CloseCode {
    /// A normal close.
    Done,
    /// A newer connection took over the participant.
    Superseded,
    /// This controller lost the meeting; the client resolves it again.
    Fenced,
    /// This controller is shutting down; the client resolves the meeting again.
    Draining,
    /// A host removed this participant.
    Kicked,
    /// The client violated the protocol.
    Protocol,
    /// The client read its messages too slowly.
    TooSlow,
}

impl CloseCode {
    /// All codes.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Superseded,
        Self::Fenced,
        Self::Draining,
        Self::Kicked,
        Self::Protocol,
        Self::TooSlow,
    ];

    /// The numeric code.
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

    /// Looks up a code by number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The label for logs and metrics, also sent to the client as the reason.
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
    fn close_codes_round_trip_through_their_numbers() {
        let numbers = CloseCode::ALL.map(CloseCode::number);
        assert_eq!(numbers, [0, 4001, 4002, 4003, 4004, 4005, 4006]);
        for code in CloseCode::ALL {
            assert_eq!(CloseCode::from_number(code.number()), Some(code));
        }
        assert_eq!(CloseCode::from_number(4007), None);
    }
}
