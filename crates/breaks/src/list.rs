//! The list of breaks, once: the name, the invariant of docs/invariants.md that it breaks, and what is wrong.

macro_rules! list {
    (
        simulated { $($sim:ident [$($sim_row:literal)*] $sim_words:literal)* }
        product { $($name:ident [$($row:literal)*] $words:literal)* }
    ) => {
        /// A known break: a defect that can be switched on.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Break {
            $(#[doc = $sim_words] $sim,)*
            $(#[doc = $words] $name,)*
        }

        impl Break {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$sim,)* $(Self::$name,)*];

            /// Those that the simulation of the kernel finds.
            pub const SIMULATED: &[Self] = &[$(Self::$sim),*];

            /// Its name, as the environment has it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$sim => stringify!($sim),)*
                    $(Self::$name => stringify!($name),)*
                }
            }

            /// The invariants whose tests notice it; none for a break of the simulated world around the product.
            pub const fn invariants(self) -> &'static [&'static str] {
                match self {
                    $(Self::$sim => &[$($sim_row),*],)*
                    $(Self::$name => &[$($row),*],)*
                }
            }

            /// What is wrong, in words.
            pub const fn describe(self) -> &'static str {
                match self {
                    $(Self::$sim => $sim_words,)*
                    $(Self::$name => $words,)*
                }
            }
        }
    };
}

list! {
    simulated {
        DeadlineFromReply ["I-11"] "deadline from reply time"
        ParkedFromReply ["I-21"] "parked grant held without a renewal"
        NoMargin [] "no margin for drift and stopping"
        PermitByTimer ["I-19"] "permit by the last state a timer set"
        UnknownIsYes ["I-09"] "unanswered renewal counts as success"
        PermitWhileMoving ["I-01"] "permits while handing over"
        SuspendBlind [] "suspend-blind clock"
        NonceReuse [] "nonce reuse: one token for all"
        NewTokenOnRetry ["I-09"] "retry with a new token"
        BusyIsSettled ["I-10"] "a wait in vain leaves its copies in the queue"
        NoReaper ["I-10"] "no reaper"
        SlotsInMemory [] "slots counted in the process"
        PlainCounter ["I-02"] "plain INCR for generations"
        SweeperOnly ["I-12"] "expiry only in a sweeper"
        RenewCreates ["I-04"] "renewal that re-creates"
        RenewLate ["I-04"] "renewal extends after expiry"
        ReleaseUnchecked ["I-01"] "release without token check"
        NameOnly ["I-01"] "name-only ownership"
        TransferKeeps ["I-02"] "transfer without a greater generation"
        NoDelay ["I-01"] "lock-delay lost"
        WakeWithoutTimer ["I-05"] "wake without timer"
        LostWake ["I-05"] "release wakes no waiter"
        LastInFirstOut ["I-05"] "last in, first out"
        Overtake ["I-05"] "claims overtake the queue"
        WipeFirst ["I-07"] "wipe before proof"
        NoTombstone ["I-17"] "no tombstone"
        TokenReuse ["I-17"] "spent tokens granted again"
        FenceBlind ["I-03" "P-04"] "store's fence lets every generation in"
        ResourceBlind [] "resource lets every generation in"
    }
    product {
        // Stores.
        DelayInMemory [] "lock-delay in memory: a restart forgets it"
        ShowsTokens ["I-08"] "a token's debug output is the token"
        NoSweeper ["I-12"] "no sweep: an expiry is written when the key is next read"
        AnswersUnsynced ["I-13"] "answers before the journal is synced"
        RenewsWithoutHeartbeat ["I-13"] "renews without a sign of life on the disk"
        OpensDamaged ["I-13"] "opens a directory that is damaged or not complete"
        OpensUnsyncedBase ["I-14"] "opens a base again that could not be synced in this boot"
        ReadsAfterFailure ["I-14"] "a failed store goes on answering reads"
        IgnoresFailedSync ["I-14"] "goes on after a sync that failed"
        NoRoomCheck ["I-15"] "decides without room in the journal"
        ChecksRoomEarly ["I-15"] "checks the room in the journal in one step and decides in another"
        UnderestimatesWipe ["I-15"] "counts 256 bytes in the journal for each lease that a wipe ends"
        TombstonesInMemory ["I-17"] "tombstones in memory: a restart forgets them"
        NoDirectoryLock ["I-16"] "does not lock its directory"
        AcceptsInventedFence ["I-03"] "a monotonic fence needs no proof"
        ConflictIsWritten ["I-18"] "writes a commit that conflicts"
        RedisGrantsHeld ["I-01"] "Redis: grants a key that is held"
        RedisNoQuarantine ["I-01"] "Redis: grants free keys right after a restart"
        RedisHandsOnInQuarantine ["I-01"] "Redis: hands keys on right after a restart"
        AllowsEviction ["I-01"] "Redis: takes a server that may delete live leases"
        RedisPlainIncrement ["I-02"] "Redis: counts generations up by one, without the floor"
        RedisFenceBlind ["I-03"] "Redis: no mark fences a write out"
        RedisRenewsExpired ["I-04"] "Redis: renews a reign that has expired"
        RedisLastInFirstOut ["I-05"] "Redis: grants to the last waiting claim first"
        RedisWipesUnproven ["I-07"] "Redis: wipes without the proof of the gate"
        RedisGrantsSpent ["I-17"] "Redis: grants a spent token"
        RedisConflictIsWritten ["I-18"] "Redis: writes a commit that conflicts"
        RedisAnnouncesUnfenced ["P-04"] "Redis: announces without a lease"
        RedisForeignIsFree ["P-05"] "Redis: takes a key that another program has set"
        // Holders.
        ReleasesUnderPermits ["I-01"] "a release does not wait for permits"
        SlotsPerHolder ["I-06"] "slots of each holder under keys of their own"
        GateStaysOpen ["I-20"] "a lost gate ends nothing"
        // Control.
        AdmitsEverything ["I-22"] "control: admits every command"
        LeaseOutlivesConnection ["I-23"] "control: a lost connection keeps the lease"
        ServesWithoutGate ["I-24"] "control: serves on after the loss of the device"
        ShowsControlToken ["I-25"] "control: the event of an acquire contains the token"
        // Meetings.
        TrustsOwnerRecords ["I-26"] "meetings: writes whatever the owner records say"
        SkipsEventNumbers ["I-27"] "meetings: events have gaps"
        AcceptsAnyProof ["I-28"] "meetings: gives a seat back without its binding token"
        IgnoresOwner ["I-29"] "meetings: sends clients to the controller that was asked, not to the owner"
        AdmitsAnyCaller ["I-30"] "meetings: every service may call every service"
        ResendsApplied ["I-31"] "meetings: a client sends applied requests again"
        AcceptsOlderOwner ["I-32"] "meetings: a handler takes the word of an older owner"
        NoConnectionLimit ["I-33"] "meetings: a controller takes any number of sessions"
        ForgetsHostDecisions ["I-34"] "meetings: a new seat of a muted or banned user knows nothing of it"
        RegistersWithoutSeats ["I-35"] "meetings: handlers learn neither seats nor mutes"
        // Meetings, found by their simulation.
        UnfencedWrites [] "meetings: a controller writes without a fence"
        UnknownWriteFails [] "meetings: a write without an answer counts as not made"
        DurableBeforeWrite [] "meetings: events are sent as durable before they are written"
        RestartsEventNumbers [] "meetings: a new owner counts events from the start"
        ForgetsApplied [] "meetings: a resume forgets which requests took effect"
        CountsLostAsApplied [] "meetings: a resumed client takes its request in flight for applied"
        ReusesNonce [] "meetings: a resume spends no nonce"
        TakesFromTheLiving [] "meetings: a reported controller is dead without a probe"
        // Polling.
        KeyPerNode ["P-01"] "polling: each node has keys of its own"
        PollsInJeopardy ["P-02"] "polling: goes on after a failed renewal"
        ReleasesDuringPoll ["P-03"] "polling: releases a target during its poll"
        ShowsTargetSecrets ["P-06"] "polling: shows secrets of targets"
        // Sessions.
        IgnoresActiveSession ["S-01" "S-21"] "sessions: a repeated start replaces the active session"
        AdmitsEveryNetwork ["S-02"] "sessions: serves clients of every network"
        StartsInRequest ["S-03"] "sessions: a start ends with its client's connection"
        ShowsSecrets ["S-04"] "sessions: a secret's debug output is the secret"
        EveryHolderIsDead ["S-05"] "sessions: takes the guard from a live worker"
        WritesUnfenced ["S-06"] "sessions: writes records without the guard's fence"
        IgnoresLostLease ["S-07"] "sessions: runs on without its channel or tuner"
        IgnoresDoubleClaim ["S-08"] "sessions: two claims on a tuner are no violation"
        LeavesOutput ["S-09"] "sessions: an ended session keeps its output directory"
        NoRecordLimit ["S-10"] "sessions: stores any number of sessions"
        PipelinesOutliveLeases ["S-20"] "sessions: pipelines run an hour past their leases"
        ForgetsIntents ["S-22"] "sessions: a worker does not find what was recorded before it started"
        StaysWithoutGuard ["S-23"] "sessions: the process stays when the guard is lost"
    }
}

impl Break {
    /// The break with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|what| what.name() == name)
    }
}
