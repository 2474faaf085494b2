//! Known breaks: defects that a run switches on, one at a time, to prove that the tests notice them.
//!
//! A break is switched on for a process by the environment variable [`VARIABLE`], or for a thread by `set`. Without
//! the feature `breaks`, which no shipped build has, none can be switched on and the compiler removes every check.

mod list;
mod patch;

pub use list::Break;
pub use patch::{PATCHES, patched};
pub use switch::*;

/// The variable whose value names the break that a process has.
pub const VARIABLE: &str = "KNOWN_BREAK";

#[cfg(feature = "breaks")]
mod switch {
    use std::cell::Cell;
    use std::sync::LazyLock;

    use super::{Break, VARIABLE};

    thread_local! {
        static OF_THREAD: Cell<Option<Break>> = const { Cell::new(None) };
    }

    /// Read once: a process has its break from its start.
    static OF_PROCESS: LazyLock<Option<Break>> = LazyLock::new(|| {
        let name = std::env::var(VARIABLE).ok()?;
        // A misspelt name that broke nothing would look like a test that notices nothing.
        Some(Break::from_name(&name).unwrap_or_else(|| panic!("{VARIABLE}: there is no break {name:?}")))
    });

    /// Whether this break is switched on in this process or in this thread.
    #[inline]
    pub fn broken(what: Break) -> bool {
        OF_THREAD.get() == Some(what) || *OF_PROCESS == Some(what)
    }

    /// Switches one break on in this thread, or all off.
    pub fn set(what: Option<Break>) {
        OF_THREAD.set(what);
    }
}

#[cfg(not(feature = "breaks"))]
mod switch {
    use super::Break;

    /// Nothing is broken: the feature is off.
    #[inline(always)]
    pub const fn broken(_: Break) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_break_is_on_by_default() {
        assert!(std::env::var_os(VARIABLE).is_some() || Break::ALL.iter().all(|what| !broken(*what)));
    }

    #[test]
    fn a_break_is_found_by_its_name() {
        for what in Break::ALL {
            assert_eq!(Break::from_name(what.name()), Some(*what));
        }
        assert_eq!(Break::from_name("NoSuchBreak"), None);
    }

    #[cfg(feature = "breaks")]
    #[test]
    fn a_thread_has_one_break_at_a_time_and_shares_it_with_no_other() {
        set(Some(Break::RenewLate));
        assert!(broken(Break::RenewLate) && !broken(Break::RenewCreates));
        assert!(std::thread::spawn(|| !broken(Break::RenewLate)).join().unwrap());
        set(None);
        assert!(!broken(Break::RenewLate));
    }
}
