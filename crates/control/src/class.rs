//! Command classes, and the matrix that decides which commands the lease allows.

use crate::lease::Ownership;

/// The effect of a command on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Reads only.
    Read,
    /// Changes the device. Unknown commands have this class.
    Mutate,
    /// Manages the lease: acquire, heartbeat, release, status.
    Control,
    /// Always allowed: authentication and firmware.
    Exempt,
}

/// The source of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InputSource {
    /// A WebSocket.
    Ws,
    /// An HTTP request.
    Rest,
    /// A serial port.
    Serial,
    /// A rotary encoder.
    Encoder,
}

impl InputSource {
    /// Every source.
    pub const ALL: [Self; 4] = [Self::Ws, Self::Rest, Self::Serial, Self::Encoder];

    /// The name used in telemetry.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ws => "ws",
            Self::Rest => "rest",
            Self::Serial => "serial",
            Self::Encoder => "encoder",
        }
    }

    /// Whether this source can prove ownership of the lease. Local inputs cannot.
    const fn can_own(self) -> bool {
        matches!(self, Self::Ws | Self::Rest)
    }
}

impl Class {
    /// The name used in tables and schemas.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Mutate => "mutate",
            Self::Control => "control",
            Self::Exempt => "exempt",
        }
    }
}

/// The mutability matrix.
pub const fn allowed(class: Class, source: InputSource, ownership: Ownership) -> bool {
    match (class, ownership) {
        (Class::Read | Class::Control | Class::Exempt, _) | (Class::Mutate, Ownership::Inactive) => true,
        (Class::Mutate, Ownership::Owner) => source.can_own(),
        (Class::Mutate, Ownership::Other) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_matches_the_contract() {
        use Ownership::{Inactive, Other, Owner};
        let columns = [Inactive, Owner, Other];
        let rows = [
            (Class::Mutate, InputSource::Ws, [true, true, false]),
            (Class::Mutate, InputSource::Rest, [true, true, false]),
            (Class::Mutate, InputSource::Encoder, [true, false, false]),
            (Class::Mutate, InputSource::Serial, [true, false, false]),
            (Class::Read, InputSource::Ws, [true, true, true]),
            (Class::Read, InputSource::Rest, [true, true, true]),
            (Class::Read, InputSource::Serial, [true, true, true]),
        ];
        for (class, source, expected) in rows {
            assert_eq!(
                columns.map(|ownership| allowed(class, source, ownership)),
                expected,
                "{class:?} {source:?}"
            );
        }
        for class in [Class::Control, Class::Exempt] {
            for source in InputSource::ALL {
                assert!(columns.iter().all(|ownership| allowed(class, source, *ownership)));
            }
        }
    }
}
