//! Known breaks: defects that the simulator switches on one at a time to prove that its judge finds them. Without the
//! feature `breaks`, which no shipped build has, none can be switched on and the compiler removes every check.

/// A known break: a defect of the kernel that can be switched on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Break {
    /// The holder's deadline counts from the reply.
    DeadlineFromReply,
    /// A parked grant counts from its answer, without a renewal.
    ParkedFromReply,
    /// The holder keeps no margin for drift and stopping.
    NoMargin,
    /// A permit depends on the state that a timer set last instead of the clock.
    PermitByTimer,
    /// A renewal without a response counts as successful.
    UnknownIsYes,
    /// Permits are given while the lease is being handed over.
    PermitWhileMoving,
    /// The clock does not count suspend.
    SuspendBlind,
    /// All tokens are equal.
    NonceReuse,
    /// A retried claim gets a new token.
    NewTokenOnRetry,
    /// A claim whose wait timed out counts as settled, although a duplicate may still be queued.
    BusyIsSettled,
    /// Dropped claims are not released.
    NoReaper,
    /// Slots are counted in the process.
    SlotsInMemory,
    /// Generations are a plain counter that dies with the server.
    PlainCounter,
    /// A reign ends only when a sweep finds it expired.
    SweeperOnly,
    /// A renewal recreates a reign that has ended.
    RenewCreates,
    /// A renewal ignores the expiry.
    RenewLate,
    /// A release ignores the token.
    ReleaseUnchecked,
    /// Two claims with the same holder name count as one holder.
    NameOnly,
    /// A transfer keeps the generation.
    TransferKeeps,
    /// A revocation leaves no lock-delay.
    NoDelay,
    /// An expiry wakes no waiter.
    WakeWithoutTimer,
    /// A release wakes no waiter.
    LostWake,
    /// The queue is last in, first out.
    LastInFirstOut,
    /// A claim that does not wait overtakes the queue.
    Overtake,
    /// A wipe takes effect before the proof is checked.
    WipeFirst,
    /// A release that finds nothing leaves no tombstone.
    NoTombstone,
    /// A spent token is granted again.
    TokenReuse,
    /// A fence admits every generation.
    FenceBlind,
    /// The resource admits every generation.
    ResourceBlind,
    /// A lock-delay is lost by a restart. Only a store on a disk can show it.
    DelayInMemory,
}

impl Break {
    /// All that a memory store and its holders can show.
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
    fn no_break_is_on_by_default() {
        assert!(Break::ALL.into_iter().all(|what| !broken(what)));
    }
}
