//! `tenure lease acquire`.

use std::sync::Arc;
use std::time::Duration;

use lease::{Acquired, Claim, Grant, Holder, Key, Lease, Meta, Release, Renewal, Renewed, Store, Token, Ttl};
use lease_store::OsEntropy;

use crate::cli::view::{self, BusyView, GrantView};
use crate::cli::{Failure, Result, Screen, Target, connect, exit, human};

/// How long giving up a claim may take when a person ends the wait.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(2);

/// What to take.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The key
    #[arg(value_parser = super::key)]
    key: Key,
    /// The name to hold it under [default: the machine's name and a random number]
    #[arg(long, value_parser = super::holder)]
    holder: Option<Holder>,
    /// How long it lasts unless renewed
    #[arg(long, default_value = "30s", value_parser = super::ttl)]
    ttl: Ttl,
    /// Wait in line for up to this long
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    wait: Option<Duration>,
    /// The secret of the reign; the same one again gives the same lease [default: a new one]
    #[arg(long, value_parser = super::token, allow_hyphen_values = true)]
    token: Option<Token>,
    /// What to tell others
    #[arg(long, value_name = "TEXT")]
    meta: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// A name that no other start of a process shares.
pub(crate) fn default_holder() -> Result<Holder> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let fits = |c: &char| c.is_ascii_graphic();
    let name: String = name.chars().filter(fits).take(100).collect();
    let name = if name.is_empty() { "cli" } else { name.as_str() };
    Ok(Holder::unique(name, &OsEntropy)?)
}

pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let meta = Meta::new(args.meta.as_deref().unwrap_or_default())?;
    let holder = args.holder.map_or_else(default_holder, Ok)?;
    let token = args.token.unwrap_or_else(|| Token::random(&OsEntropy));
    // The lease is to outlive this command, so it is never bound to our process.
    let mut claim = Claim::new(args.key.clone(), holder, token.clone(), args.ttl).meta(meta).remote();
    claim.wait = args.wait.filter(|wait| !wait.is_zero());
    let store = connect(&args.target).await?;
    let answer = tokio::select! {
        answer = take(&store, claim) => answer?,
        _ = tokio::signal::ctrl_c() => return give_up(&store, &args.key, &token).await,
    };
    match answer {
        Acquired::Granted(grant) => tell(screen, &grant.lease, &token, &args.target),
        Acquired::Busy(busy) => {
            if screen.is_json() {
                screen.json(&BusyView::from(&busy))?;
                return Ok(exit::NOT_NOW);
            }
            let failure = Failure::new(exit::NOT_NOW, "BUSY", view::busy_words(&args.key, &busy));
            Err(if args.wait.is_none() { failure.hint("--wait 30s waits in line for it") } else { failure })
        }
    }
}

/// Asks, and confirms a grant that came while waiting: its time has been running since nobody knows when.
async fn take(store: &Arc<dyn Store>, claim: Claim) -> Result<Acquired> {
    let (key, token) = (claim.key.clone(), claim.token.clone());
    let answer = store.acquire(claim).await?;
    if let Acquired::Granted(Grant { lease, parked: true }) = &answer {
        let item = [Renewal { key, token, generation: lease.generation, ttl: None }];
        if let Some(Renewed::Lost(end)) = store.renew(&item).await?.first() {
            let words = format!("{} was granted and lost again at once: {end}", lease.key);
            return Err(Failure::new(exit::LOST, "NOT_HELD", words));
        }
    }
    Ok(answer)
}

/// A person ended the wait: nothing may stay claimed in its name.
async fn give_up(store: &Arc<dyn Store>, key: &Key, token: &Token) -> Result<u8> {
    let clock = store.clock();
    tokio::select! {
        released = store.release(Release::new(key.clone(), token.clone())) => drop(released),
        () = clock.sleep_until(clock.now() + GIVE_UP_LIMIT) => {}
    }
    Ok(130)
}

fn tell(screen: &Screen, lease: &Lease, token: &Token, target: &Target) -> Result<u8> {
    if screen.is_json() {
        screen.json(&GrantView::new(lease, token))?;
        return Ok(exit::DONE);
    }
    let (key, generation, token) = (&lease.key, lease.generation, token.reveal());
    screen.line(format!("{key} is yours for {} unless renewed", human::duration(lease.ttl.as_duration())))?;
    screen.line(format!("  holder      {}", lease.holder))?;
    screen.line(format!("  generation  {generation}"))?;
    screen.line(format!("  token       {token}"))?;
    let again = target.again();
    screen.note(&format!(
        "renew:    tenure lease renew {key} --token {token} --generation {generation}{again}"
    ));
    screen.note(&format!("release:  tenure lease release {key} --token {token}{again}"));
    Ok(exit::DONE)
}
