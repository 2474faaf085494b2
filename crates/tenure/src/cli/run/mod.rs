//! `tenure run`: runs a command only while a lease is held.
//!
//! The command runs under a [watchdog](crate::watchdog), which ends it when this process hangs, is stopped or is killed.
//! This process acquires and renews the lease, sends each later deadline to the watchdog, forwards signals, and releases
//! the lease when no process of the command is left.

mod remote_claims;
pub(super) mod signals;
mod supervise;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::{Guard, Keeper, Policy, Terms};
use tenure_lease::{Holder, Key, Meta, Store, Ttl};

use self::remote_claims::RemoteClaims;
pub(super) use self::signals::Signals;
use self::supervise::{Outcome, supervise};
use super::lease::default_holder;
use super::{Failure, Result, Screen, Target, connect, exit, human, view};

/// How long the exit waits for the release of a lost lease.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);

/// The arguments of `tenure run`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Key to hold while the command runs
    #[arg(value_parser = super::lease::key)]
    key: Key,
    /// TTL of the lease; if renewals fail, the command is killed before it expires
    #[arg(long, default_value = "15s", value_parser = super::lease::ttl)]
    ttl: Ttl,
    /// Queue for a busy key for up to this long
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = human::parse_duration)]
    wait: Duration,
    /// Holder name [default: the hostname and a random number]
    #[arg(long, value_parser = super::lease::holder)]
    holder: Option<Holder>,
    /// Metadata that others can see [default: the name of the command]
    #[arg(long, value_name = "TEXT")]
    meta: Option<String>,
    #[command(flatten)]
    target: Target,
    /// Command to run
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const AFTER: &str = "The command runs in its own session and process group, with TENURE_KEY, TENURE_GENERATION and
TENURE_HOLDER in its environment. If the lease cannot be renewed, the group gets SIGTERM a sixth of the TTL before
the deadline and SIGKILL right before it. SIGINT, SIGTERM, SIGHUP and SIGQUIT are forwarded.

Exit codes: that of the command (128 + n if signal n ended it), 126 or 127 if it could not be started, 75 if the
key was not acquired, 76 if the lease was lost while the command ran.";

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let mut signals = Signals::listen()?;
    let store: Arc<dyn Store> = Arc::new(RemoteClaims::new(connect(&args.target).await?));
    let holder = args.holder.clone().map_or_else(default_holder, Ok)?;
    let keeper = Keeper::new(store, holder);
    let terms = Terms::new(args.ttl).policy(Policy::Abort).meta(meta(&args)?);
    let guard = tokio::select! {
        biased;
        number = signals.next() => {
            wait_for_releases(&keeper).await;
            return Ok(128 + number as u8);
        }
        taken = keeper.acquire(args.key.clone(), terms, args.wait) => taken.map_err(|error| not_acquired(&args, error))?,
    };
    let outcome = supervise(&guard, &args.command, &keeper, &mut signals).await;
    let code = finish(outcome, guard, &args, &keeper, screen).await;
    wait_for_releases(&keeper).await;
    code
}

/// The metadata of the lease: the name of the command without its arguments, which may be secret.
fn meta(args: &Args) -> Result<Meta> {
    let name = || args.command[0].to_string_lossy().chars().take(200).collect();
    Ok(Meta::new(args.meta.clone().unwrap_or_else(name))?)
}

fn not_acquired(args: &Args, error: tenure_keeper::Error) -> Failure {
    if let Some(busy) = error.busy() {
        let failure = Failure::new(exit::NOT_NOW, "BUSY", view::describe_busy(&args.key, busy));
        return if args.wait.is_zero() { failure.hint("--wait 1m queues for it") } else { failure };
    }
    let usage = matches!(
        error,
        tenure_keeper::Error::Store(tenure_lease::Error::Invalid { .. } | tenure_lease::Error::Refused(_))
    );
    let failure = Failure::from(error).during(&format!("{} was not acquired", args.key));
    if usage { failure } else { failure.exiting(exit::NOT_NOW) }
}

/// Releases the lease and reports the outcome, when no process of the command is left.
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
                let within = human::format_duration(args.ttl.as_duration());
                screen.note(&format!("could not release {}; it expires within {within}", args.key));
            }
            Ok(code)
        }
        Outcome::NotStarted(failure) => {
            drop(guard.release().await);
            Err(failure)
        }
        Outcome::Lost { lost } => {
            let release = guard.release();
            within(keeper, RELEASE_TIMEOUT, async { drop(release.await) }).await;
            let detail = format!("the lease of {} was lost ({lost}); the command was killed", args.key);
            Err(Failure::new(exit::LOST, "NOT_HELD", detail))
        }
    }
}

/// Waits a moment for pending releases.
async fn wait_for_releases(keeper: &Keeper) {
    within(keeper, RELEASE_TIMEOUT, keeper.settled()).await;
}

async fn within(keeper: &Keeper, limit: Duration, act: impl Future<Output = ()>) {
    let clock = keeper.clock();
    tokio::select! {
        () = act => {}
        () = clock.sleep_until(clock.now() + limit) => {}
    }
}
