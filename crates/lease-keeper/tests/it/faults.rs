//! Faults between a holder and its store.

use std::time::Duration;

use parking_lot::Mutex;
use tenure_lease::{Clock, Error, Result};

/// The fault of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// The request travels this long.
    Late(Duration),
    /// The reply travels this long.
    SlowReply(Duration),
    /// It did not happen.
    Refused,
    /// It happened and the response was lost.
    CutReply,
    /// It neither happens nor gets a response.
    Hang,
    /// It happened and never gets a response.
    HangAfter,
}

#[derive(Debug)]
struct Fault {
    verb: &'static str,
    key: Option<&'static str>,
    kind: Kind,
    times: usize,
}

/// The faults to come; the first that fits a call is used up by it.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    list: Mutex<Vec<Fault>>,
}

/// For ever, as far as a test is concerned.
pub(crate) const ALWAYS: usize = usize::MAX;

impl Faults {
    pub(crate) fn inject(&self, verb: &'static str, kind: Kind, times: usize) {
        self.list.lock().push(Fault { verb, key: None, kind, times });
    }

    pub(crate) fn inject_for(&self, verb: &'static str, key: &'static str, kind: Kind, times: usize) {
        self.list.lock().push(Fault { verb, key: Some(key), kind, times });
    }

    pub(crate) fn heal(&self) {
        self.list.lock().clear();
    }

    /// Draws the fault of a call.
    pub(crate) fn draw(&self, verb: &str, keys: &[String]) -> Option<Kind> {
        let mut list = self.list.lock();
        let fits = |f: &Fault| f.verb == verb && f.key.is_none_or(|key| keys.iter().any(|k| k == key));
        let at = list.iter().position(fits)?;
        let kind = list[at].kind;
        list[at].times -= 1;
        if list[at].times == 0 {
            list.remove(at);
        }
        Some(kind)
    }
}

/// What happens before the store acts.
pub(crate) async fn before(fault: Option<Kind>, clock: &dyn Clock) -> Result<()> {
    match fault {
        Some(Kind::Late(time)) => clock.sleep_until(clock.now() + time).await,
        Some(Kind::Refused) => return Err(Error::unavailable("fake", "injected")),
        Some(Kind::Hang) => std::future::pending().await,
        _ => {}
    }
    Ok(())
}

/// What happens after the store has acted.
pub(crate) async fn after<T>(fault: Option<Kind>, clock: &dyn Clock, answer: T) -> Result<T> {
    match fault {
        Some(Kind::SlowReply(time)) => clock.sleep_until(clock.now() + time).await,
        Some(Kind::CutReply) => return Err(Error::unknown("fake", "injected")),
        Some(Kind::HangAfter) => std::future::pending().await,
        _ => {}
    }
    Ok(answer)
}
