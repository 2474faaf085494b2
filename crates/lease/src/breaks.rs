//! Known breaks: what the kernel must not do, switched on one at a time by the simulator, to prove that its
//! judge would notice. Without the feature `breaks`, which nothing that ships has, none can be switched on
//! and the compiler removes every question about them.

/// A known break.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Break {
    /// The holder's deadline counts from the reply.
    DeadlineFromReply,
    /// A parked grant counts from its answer, without a renewal.
    ParkedFromReply,
    /// The holder keeps no margin for drift and stopping.
    NoMargin,
    /// A permit rests on the last state that a timer set, not on the clock.
    PermitByTimer,
    /// A renewal without an answer counts as one that succeeded.
    UnknownIsYes,
    /// Permits are given while the lease is being handed over.
    PermitWhileMoving,
    /// The clock does not count suspend.
    SuspendBlind,
    /// Every token is made of the same numbers.
    NonceReuse,
    /// A claim that is asked again gets a new token.
    NewTokenOnRetry,
    /// A claim that waited in vain is taken for settled, though a copy of it may still stand in the queue.
    BusyIsSettled,
    /// Nobody gives back what was dropped.
    NoReaper,
    /// Slots are counted in the process.
    SlotsInMemory,
    /// Generations are a plain counter that dies with the server.
    PlainCounter,
    /// Expired is what a sweeper swept.
    SweeperOnly,
    /// A renewal of a reign that is gone brings it back.
    RenewCreates,
    /// A renewal does not look whether the time is over.
    RenewLate,
    /// A release does not look at the token.
    ReleaseUnchecked,
    /// The same name is taken for the same holder.
    NameOnly,
    /// A transfer keeps the generation.
    TransferKeeps,
    /// A revocation leaves no lock-delay.
    NoDelay,
    /// An expiry wakes nobody.
    WakeWithoutTimer,
    /// A release wakes nobody.
    LostWake,
    /// The last that came is served first.
    LastInFirstOut,
    /// A claim that does not wait goes past the queue.
    Overtake,
    /// A wipe wipes before it looks at the proof.
    WipeFirst,
    /// A release that finds nothing leaves no mark.
    NoTombstone,
    /// A token that has served may serve again.
    TokenReuse,
    /// A fence lets every generation in.
    FenceBlind,
    /// The resource lets every generation in.
    ResourceBlind,
    /// A lock-delay is kept in memory: a store that comes back has forgotten it. Only a store on a disk can show it.
    DelayInMemory,
}

impl Break {
    /// All that a store in memory and its holders can show.
    pub const ALL: [Self; 29] = [
        Self::DeadlineFromReply,
        Self::ParkedFromReply,
        Self::NoMargin,
        Self::PermitByTimer,
        Self::UnknownIsYes,
        Self::PermitWhileMoving,
        Self::SuspendBlind,
        Self::NonceReuse,
        Self::NewTokenOnRetry,
        Self::BusyIsSettled,
        Self::NoReaper,
        Self::SlotsInMemory,
        Self::PlainCounter,
        Self::SweeperOnly,
        Self::RenewCreates,
        Self::RenewLate,
        Self::ReleaseUnchecked,
        Self::NameOnly,
        Self::TransferKeeps,
        Self::NoDelay,
        Self::WakeWithoutTimer,
        Self::LostWake,
        Self::LastInFirstOut,
        Self::Overtake,
        Self::WipeFirst,
        Self::NoTombstone,
        Self::TokenReuse,
        Self::FenceBlind,
        Self::ResourceBlind,
    ];
}

#[cfg(feature = "breaks")]
mod switch {
    use std::cell::Cell;

    use super::Break;

    thread_local! {
        static BROKEN: Cell<Option<Break>> = const { Cell::new(None) };
    }

    /// Whether this break is switched on in this thread.
    #[inline]
    pub fn broken(what: Break) -> bool {
        BROKEN.get() == Some(what)
    }

    /// Switches one break on in this thread, or all off.
    pub fn set(what: Option<Break>) {
        BROKEN.set(what);
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

pub use switch::*;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_broken_unless_somebody_says_so() {
        assert!(Break::ALL.into_iter().all(|what| !broken(what)));
    }
}
