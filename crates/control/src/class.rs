//! Which commands change the device, and the matrix that follows from it.

use crate::lease::Standing;

/// What a command does, as far as the lease is concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Looks.
    Read,
    /// Changes the device. What nobody has classed counts as this.
    Mutate,
    /// Is about the lease itself: acquire, heartbeat, release, status.
    Control,
    /// Is allowed under any lease: authentication and firmware.
    Exempt,
}

/// Where a command comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// A WebSocket.
    Ws,
    /// An HTTP request.
    Rest,
    /// A serial line.
    Serial,
    /// The knob.
    Encoder,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 4] = [Self::Ws, Self::Rest, Self::Serial, Self::Encoder];

    /// The word for telemetry.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ws => "ws",
            Self::Rest => "rest",
            Self::Serial => "serial",
            Self::Encoder => "encoder",
        }
    }

    /// Whether this source can prove that it owns the lease. Hands on the device itself cannot.
    const fn can_own(self) -> bool {
        matches!(self, Self::Ws | Self::Rest)
    }
}

impl Class {
    /// The word in tables and schemas.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mutate => "mutate",
            Self::Control => "control",
            Self::Exempt => "exempt",
        }
    }
}

/// The mutability matrix.
pub const fn allowed(class: Class, source: Source, standing: Standing) -> bool {
    match (class, standing) {
        (Class::Read | Class::Control | Class::Exempt, _) | (Class::Mutate, Standing::Inactive) => true,
        (Class::Mutate, Standing::Owner) => source.can_own(),
        (Class::Mutate, Standing::Other) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_the_one_of_the_contract() {
        use Standing::{Inactive, Other, Owner};
        let columns = [Inactive, Owner, Other];
        let rows = [
            (Class::Mutate, Source::Ws, [true, true, false]),
            (Class::Mutate, Source::Rest, [true, true, false]),
            (Class::Mutate, Source::Encoder, [true, false, false]),
            (Class::Mutate, Source::Serial, [true, false, false]),
            (Class::Read, Source::Ws, [true, true, true]),
            (Class::Read, Source::Rest, [true, true, true]),
            (Class::Read, Source::Serial, [true, true, true]),
        ];
        for (class, source, expected) in rows {
            assert_eq!(
                columns.map(|standing| allowed(class, source, standing)),
                expected,
                "{class:?} {source:?}"
            );
        }
        for class in [Class::Control, Class::Exempt] {
            for source in Source::ALL {
                assert!(columns.iter().all(|standing| allowed(class, source, *standing)));
            }
        }
    }
}
