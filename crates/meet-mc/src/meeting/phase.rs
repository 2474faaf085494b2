//! Where a meeting is in its move to another controller.

/// Active → `ShuttingDown` → Migrating → Complete. Only the way back from `ShuttingDown` is open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Phase {
    /// Everything is answered.
    #[default]
    Active,
    /// Nothing changes any more: requests that would are told to wait.
    ShuttingDown,
    /// Somebody else owns the meeting or is about to: everybody is sent there.
    Migrating {
        /// Where to.
        endpoint: String,
        /// The hashes of the certificates there.
        certificates: Vec<Vec<u8>>,
    },
    /// It is over here.
    Complete,
}

impl Phase {
    /// Whether the meeting may be in `next` after this.
    pub const fn leads_to(&self, next: &Self) -> bool {
        matches!(
            (self, next),
            (Self::Active, Self::ShuttingDown | Self::Complete)
                | (Self::ShuttingDown, Self::Active | Self::Migrating { .. } | Self::Complete)
                | (Self::Migrating { .. }, Self::Complete)
        )
    }

    /// The word for logs.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::ShuttingDown => "shutting_down",
            Self::Migrating { .. } => "migrating",
            Self::Complete => "complete",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_leads_only_where_the_drawing_says() {
        let away = Phase::Migrating { endpoint: String::new(), certificates: Vec::new() };
        let phases = [Phase::Active, Phase::ShuttingDown, away, Phase::Complete];
        let leads = [
            [false, true, false, true],
            [true, false, true, true],
            [false, false, false, true],
            [false, false, false, false],
        ];
        for (from, row) in phases.iter().zip(leads) {
            for (to, leads) in phases.iter().zip(row) {
                assert_eq!(from.leads_to(to), leads, "{from:?} to {to:?}");
            }
        }
    }
}
