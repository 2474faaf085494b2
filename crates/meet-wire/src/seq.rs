//! Detects repeated requests of a client.

/// How to treat a request with a sequence number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// New: perform it.
    New,
    /// Already applied, a retransmission: respond without applying it again.
    Again,
    /// Missing its number, which is mandatory.
    Missing,
}

/// The highest applied number. Numbers rise by at least one; a skipped number never arrives later.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Applied(u64);

impl Applied {
    /// Restores a stored number.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// Classifies a request with this number.
    pub const fn turn(self, seq: u64) -> Turn {
        match seq {
            0 => Turn::Missing,
            seq if seq > self.0 => Turn::New,
            _ => Turn::Again,
        }
    }

    /// The value after a request with this number was applied.
    #[must_use]
    pub const fn after(self, seq: u64) -> Self {
        if seq > self.0 { Self(seq) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_applied_once_despite_gaps_and_repeats() {
        let applied = Applied::default().after(1).after(5);
        for (seq, turn) in
            [(0, Turn::Missing), (1, Turn::Again), (5, Turn::Again), (6, Turn::New), (u64::MAX, Turn::New)]
        {
            assert_eq!(applied.turn(seq), turn, "{seq}");
        }
        assert_eq!(applied.after(3), applied);
    }
}
