//! `tenure run`: a command that runs only while a key is held.
//!
//! The command runs under a [watchdog](crate::watchdog), which ends it without our help when we hang, are stopped
//! or are killed. What is left for us: take the key, keep it, tell the watchdog each later deadline, pass signals
//! on, and give the key back once nothing of the command is left.

mod outside;
mod signals;
mod supervise;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use lease::{Holder, Key, Meta, Store, Ttl};
use lease_keeper::{Guard, Keeper, Policy, Terms};

use self::outside::Outside;
use self::signals::Signals;
use self::supervise::{Outcome, supervise};
use super::lease::default_holder;
use super::{Failure, Result, Screen, Target, connect, exit, human, view};

/// How long giving back what is lost anyway may hold up the exit.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// What to run, and under which key.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// The key to hold
    #[arg(value_parser = super::lease::key)]
    key: Key,
    /// How long the lease lasts unless renewed; the command is gone before that when renewals fail
    #[arg(long, default_value = "15s", value_parser = super::lease::ttl)]
    ttl: Ttl,
    /// Wait in line for up to this long when the key is busy
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = human::parse_duration)]
    wait: Duration,
    /// The name to hold it under [default: the machine's name and a random number]
    #[arg(long, value_parser = super::lease::holder)]
    holder: Option<Holder>,
    /// What to tell others about the holder [default: the command's name]
    #[arg(long, value_name = "TEXT")]
    meta: Option<String>,
    #[command(flatten)]
    target: Target,
    /// The command
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const AFTER: &str = "The command sees TENURE_KEY, TENURE_GENERATION and TENURE_HOLDER, and runs in a session and a
process group of its own. When the lease cannot be renewed the group gets SIGTERM a sixth of the TTL before the
deadline and SIGKILL right before it. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on.

Exit codes: the command's own (128 + n if signal n ended it), 126 or 127 if it could not be started, 75 if the key
was not acquired, 76 if it was lost while the command ran.";

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let store: Arc<dyn Store> = Arc::new(Outside::new(connect(&args.target).await?));
    let holder = args.holder.clone().map_or_else(default_holder, Ok)?;
    let keeper = Keeper::new(store, holder);
    let terms = Terms::new(args.ttl).policy(Policy::Abort).meta(meta(&args)?);
    let guard = tokio::select! {
        biased;
        number = signals.next() => {
            settle(&keeper).await;
            return Ok(128 + number as u8);
        }
        taken = keeper.acquire(args.key.clone(), terms, args.wait) => taken.map_err(|error| not_acquired(&args, error))?,
    };
    let outcome = supervise(&guard, &args.command, &keeper, &mut signals).await;
    let code = finish(outcome, guard, &args, &keeper, screen).await;
    settle(&keeper).await;
    code
}

/// What others see of the command: its name, not its arguments, which may be secret.
fn meta(args: &Args) -> Result<Meta> {
    let name = || args.command[0].to_string_lossy().chars().take(200).collect();
    Ok(Meta::new(args.meta.clone().unwrap_or_else(name))?)
}

fn not_acquired(args: &Args, error: lease_keeper::Error) -> Failure {
    if let Some(busy) = error.busy() {
        let failure = Failure::new(exit::NOT_NOW, "BUSY", view::busy_words(&args.key, busy));
        return if args.wait.is_zero() { failure.hint("--wait 1m waits in line for it") } else { failure };
    }
    let usage =
        matches!(error, lease_keeper::Error::Store(lease::Error::Invalid { .. } | lease::Error::Refused(_)));
    let failure = Failure::from(error).during(&format!("{} was not acquired", args.key));
    if usage { failure } else { failure.exiting(exit::NOT_NOW) }
}

/// Nothing of the command is left: gives the key back and says what happened.
async fn finish(
    outcome: Result<Outcome>,
    guard: Guard,
    args: &Args,
    keeper: &Keeper,
    screen: &Screen,
) -> Result<u8> {
    match outcome? {
        Outcome::Ended { code } => {
            if guard.release().await.is_err() {
                let within = human::duration(args.ttl.as_duration());
                screen.note(&format!("{} could not be given back; it is free within {within}", args.key));
            }
            Ok(code)
        }
        Outcome::NotStarted(failure) => {
            drop(guard.release().await);
            Err(failure)
        }
        Outcome::Lost { lost } => {
            let release = guard.release();
            within(keeper, LAST_WORDS, async { drop(release.await) }).await;
            let words = format!("{} was lost ({lost}): the command was ended", args.key);
            Err(Failure::new(exit::LOST, "NOT_HELD", words))
        }
    }
}

/// Sends the releases that are owed, for a moment.
async fn settle(keeper: &Keeper) {
    within(keeper, LAST_WORDS, keeper.settled()).await;
}

async fn within(keeper: &Keeper, limit: Duration, act: impl Future<Output = ()>) {
    let clock = keeper.clock();
    tokio::select! {
        () = act => {}
        () = clock.sleep_until(clock.now() + limit) => {}
    }
}
