//! The scopes of a token: an area of the product and a level in it.

use std::fmt;
use std::str::FromStr;

/// A part of the product that has its own rights.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Area {
    /// Leases and fenced records: `lease`.
    Lease,
    /// The control lease and its device: `control`.
    Control,
    /// Polling: `poll`.
    Poll,
    /// Meetings: `meet`.
    Meet,
    /// Sessions: `v3`.
    Sessions,
}

/// How much of an area. Each level includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Level {
    /// Read.
    Read,
    /// Change.
    Write,
    /// Override other holders.
    Admin,
}

/// A right: `lease:write`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Scope {
    /// Where.
    pub area: Area,
    /// How much.
    pub level: Level,
}

/// The rights of one token: at most one level per area.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Scopes([Option<Level>; Area::ALL.len()]);

/// A text that is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid scope `{0}`; a scope is lease, control, poll, meet or v3, a colon, and read, write or admin"
)]
pub struct ParseScopeError(String);

impl Area {
    /// Every area.
    pub const ALL: [Area; 5] = [Area::Lease, Area::Control, Area::Poll, Area::Meet, Area::Sessions];

    /// The word used in scopes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Area::Lease => "lease",
            Area::Control => "control",
            Area::Poll => "poll",
            Area::Meet => "meet",
            Area::Sessions => "v3",
        }
    }
}

impl Level {
    /// Every level, least first.
    pub const ALL: [Level; 3] = [Level::Read, Level::Write, Level::Admin];

    /// The word used in scopes.
    pub const fn as_str(self) -> &'static str {
        match self {
            Level::Read => "read",
            Level::Write => "write",
            Level::Admin => "admin",
        }
    }
}

impl Scopes {
    /// Everything, everywhere: what the generated token may do.
    pub const fn all_admin() -> Self {
        Self([Some(Level::Admin); Area::ALL.len()])
    }

    /// Whether these rights include this level of this area.
    pub fn allows(&self, area: Area, level: Level) -> bool {
        self.0[area as usize].is_some_and(|held| held >= level)
    }

    /// The highest scope of each area.
    pub fn iter(&self) -> impl Iterator<Item = Scope> + '_ {
        Area::ALL.into_iter().filter_map(|area| self.0[area as usize].map(|level| Scope { area, level }))
    }

    /// Whether there is no right at all.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        scopes.into_iter().fold(Self::default(), |mut all, scope| {
            let held = &mut all.0[scope.area as usize];
            *held = (*held).max(Some(scope.level));
            all
        })
    }
}

impl FromStr for Scope {
    type Err = ParseScopeError;

    fn from_str(text: &str) -> Result<Self, ParseScopeError> {
        let parse = || {
            let (area, level) = text.split_once(':')?;
            let area = Area::ALL.into_iter().find(|known| known.as_str() == area)?;
            let level = Level::ALL.into_iter().find(|known| known.as_str() == level)?;
            Some(Self { area, level })
        };
        parse().ok_or_else(|| ParseScopeError(text.to_owned()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.area.as_str(), self.level.as_str())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, scope) in self.iter().enumerate() {
            write!(f, "{}{scope}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_is_in_write_is_in_admin() {
        let scopes: Scopes = ["lease:write".parse().unwrap()].into_iter().collect();
        assert!(scopes.allows(Area::Lease, Level::Read) && scopes.allows(Area::Lease, Level::Write));
        assert!(!scopes.allows(Area::Lease, Level::Admin));
        assert!(Area::ALL.iter().filter(|area| scopes.allows(**area, Level::Read)).count() == 1);
    }

    #[test]
    fn the_higher_of_two_levels_counts_in_either_order() {
        let (read, admin) = ("meet:read".parse::<Scope>().unwrap(), "meet:admin".parse::<Scope>().unwrap());
        for order in [[read, admin], [admin, read]] {
            assert_eq!(order.into_iter().collect::<Scopes>().to_string(), "meet:admin");
        }
    }

    #[test]
    fn every_scope_survives_its_text() {
        for scope in Scopes::all_admin().iter() {
            for level in Level::ALL {
                let scope = Scope { level, ..scope };
                assert_eq!(scope.to_string().parse(), Ok(scope));
            }
        }
    }

    #[test]
    fn near_misses_are_refused() {
        for bad in ["", "lease", "lease:", "lease:Write", "sessions:read", "lease:read:x", " lease:read"] {
            assert!(bad.parse::<Scope>().is_err(), "{bad}");
        }
    }
}
