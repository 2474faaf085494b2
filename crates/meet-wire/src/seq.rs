//! Which request of a client is new.

/// What a request's number says about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    /// It has not been seen: perform it.
    New,
    /// It took effect before, and this is the same request sent again: answer, and change nothing.
    Again,
    /// It carries no number, which every request must.
    Missing,
}

/// The greatest number that took effect. Numbers rise by at least one; what is skipped never comes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Applied(u64);

impl Applied {
    /// Takes a number that a record kept.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub const fn number(self) -> u64 {
        self.0
    }

    /// What a request with this number is.
    pub const fn turn(self, seq: u64) -> Turn {
        match seq {
            0 => Turn::Missing,
            seq if seq > self.0 => Turn::New,
            _ => Turn::Again,
        }
    }

    /// The same after a request with this number took effect.
    #[must_use]
    pub const fn after(self, seq: u64) -> Self {
        if seq > self.0 { Self(seq) } else { self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_takes_effect_once_whatever_is_skipped_or_repeated() {
        let applied = Applied::default().after(1).after(5);
        for (seq, turn) in
            [(0, Turn::Missing), (1, Turn::Again), (5, Turn::Again), (6, Turn::New), (u64::MAX, Turn::New)]
        {
            assert_eq!(applied.turn(seq), turn, "{seq}");
        }
        assert_eq!(applied.after(3), applied);
    }
}
