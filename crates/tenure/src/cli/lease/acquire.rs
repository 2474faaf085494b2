//! `tenure lease acquire`.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{
    Acquired, Claim, Grant, Holder, Key, Lease, Meta, Release, Renewal, Renewed, Store, Token, Ttl,
};
use tenure_store::OsEntropy;

use crate::cli::view::{self, BusyView, GrantView};
use crate::cli::{Failure, Result, Screen, Target, connect, exit, human};

/// How long withdrawing a claim may take after Ctrl-C.
const WITHDRAW_TIMEOUT: Duration = Duration::from_secs(2);

/// The arguments of `tenure lease acquire`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Key to acquire
    #[arg(value_parser = super::key)]
    key: Key,
    /// Holder name [default: the hostname and a random number]
    #[arg(long, value_parser = super::holder)]
    holder: Option<Holder>,
    /// How long the lease lasts unless renewed
    #[arg(long, default_value = "30s", value_parser = super::ttl)]
    ttl: Ttl,
    /// Queue for the key for up to this long
    #[arg(long, value_name = "TIME", value_parser = human::parse_duration)]
    wait: Option<Duration>,
    /// Token of the lease; repeating it returns the same lease [default: a new one]
    #[arg(long, value_parser = super::token, allow_hyphen_values = true)]
    token: Option<Token>,
    /// Metadata that others can see
    #[arg(long, value_name = "TEXT")]
    meta: Option<String>,
    #[command(flatten)]
    target: Target,
}

/// A name that is unique to this process.
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
    // The lease outlives this command, so it must not be bound to this process.
    let mut claim = Claim::new(args.key.clone(), holder, token.clone(), args.ttl).meta(meta).remote();
    claim.wait = args.wait.filter(|wait| !wait.is_zero());
    let store = connect(&args.target).await?;
    let answer = tokio::select! {
        answer = acquire(&store, claim) => answer?,
        _ = tokio::signal::ctrl_c() => return withdraw(&store, &args.key, &token).await,
    };
    match answer {
        Acquired::Granted(grant) => print_grant(screen, &grant.lease, &token, &args.target),
        Acquired::Busy(busy) => {
            if screen.is_json() {
                screen.json(&BusyView::from(&busy))?;
                return Ok(exit::NOT_NOW);
            }
            let failure = Failure::new(exit::NOT_NOW, "BUSY", view::describe_busy(&args.key, &busy));
            Err(if args.wait.is_none() { failure.hint("--wait 30s queues for it") } else { failure })
        }
    }
}

/// Acquires, and renews a grant that came while waiting, because its age is unknown.
async fn acquire(store: &Arc<dyn Store>, claim: Claim) -> Result<Acquired> {
    let (key, token) = (claim.key.clone(), claim.token.clone());
    let answer = store.acquire(claim).await?;
    if let Acquired::Granted(Grant { lease, parked: true }) = &answer {
        let item = [Renewal { key, token, generation: lease.generation, ttl: None }];
        if let Some(Renewed::Lost(end)) = store.renew(&item).await?.pop().transpose()? {
            let detail = format!("{} was granted and lost at once: {end}", lease.key);
            return Err(Failure::new(exit::LOST, "NOT_HELD", detail));
        }
    }
    Ok(answer)
}

/// Withdraws the claim after Ctrl-C.
async fn withdraw(store: &Arc<dyn Store>, key: &Key, token: &Token) -> Result<u8> {
    let clock = store.clock();
    tokio::select! {
        released = store.release(Release::new(key.clone(), token.clone())) => drop(released),
        () = clock.sleep_until(clock.now() + WITHDRAW_TIMEOUT) => {}
    }
    Ok(130)
}

fn print_grant(screen: &Screen, lease: &Lease, token: &Token, target: &Target) -> Result<u8> {
    if screen.is_json() {
        screen.json(&GrantView::new(lease, token))?;
        return Ok(exit::DONE);
    }
    let (key, generation, token) = (&lease.key, lease.generation, token.reveal());
    screen.line(format!(
        "acquired {key} for {} unless renewed",
        human::format_duration(lease.ttl.as_duration())
    ))?;
    screen.line(format!("  holder      {}", lease.holder))?;
    screen.line(format!("  generation  {generation}"))?;
    screen.line(format!("  token       {token}"))?;
    let store = target.store_argument();
    screen.note(&format!(
        "renew:    tenure lease renew {key} --token {token} --generation {generation}{store}"
    ));
    screen.note(&format!("release:  tenure lease release {key} --token {token}{store}"));
    Ok(exit::DONE)
}
