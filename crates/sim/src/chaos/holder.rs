//! The process that holds: it takes keys, acts on them for as long as it may, and writes down everything.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_keeper::{Guard, Keeper, Permit, PermitError, Terms};
use tenure_lease::{Clock, Holder, Key, Mode, Op, Records, Store, Ttl};
use tokio::task::JoinSet;

use super::clock;
use super::log::Log;
use super::plan::SeededRng;
use super::recorder::{Recorder, id};
use super::resource::Resource;
use crate::history::{Client, What};

/// How many keys one process pursues at a time.
const HANDS: u64 = 2;

/// For how long a broken holder believes.
const FOR_EVER: Duration = Duration::from_secs(3_600);

/// How a holder is started.
#[derive(Clone, Debug)]
pub struct Args {
    /// The store: `tenure://…` or `redis://…`.
    pub url: String,
    /// What a Tenure server wants to see.
    pub api_token: Option<String>,
    /// The number of this life.
    pub client: Client,
    /// The number of the place where it lives.
    pub host: u32,
    /// The keys to pursue.
    pub keys: Vec<String>,
    /// For how long without renewal.
    pub ttl: Duration,
    /// Where to write down what happens.
    pub history: PathBuf,
    /// The folder of the fenced files.
    pub resource: PathBuf,
    /// Where its choices come from.
    pub seed: u64,
    /// Whether it goes on for as long as it likes instead of as long as it may: the fault that the judge must find.
    pub broken: bool,
}

impl Args {
    /// The arguments as [`Args::parse`] takes them.
    pub fn to_args(&self) -> Vec<String> {
        let number = |n: u64| n.to_string();
        vec![
            self.url.clone(),
            self.api_token.clone().unwrap_or_default(),
            number(self.client.into()),
            number(self.host.into()),
            self.keys.join(","),
            number(self.ttl.as_millis() as u64),
            self.history.display().to_string(),
            self.resource.display().to_string(),
            number(self.seed),
            if self.broken { "broken" } else { "sound" }.into(),
        ]
    }

    /// Parses what [`Args::to_args`] returned.
    pub fn parse(args: &[String]) -> Result<Self> {
        let [url, token, client, host, keys, ttl, history, resource, seed, broken] = args else {
            anyhow::bail!(
                "usage: URL API-TOKEN CLIENT HOST KEY,… TTL-MS HISTORY RESOURCE SEED sound|broken, not {} arguments",
                args.len()
            );
        };
        Ok(Self {
            url: url.clone(),
            api_token: (!token.is_empty()).then(|| token.clone()),
            client: client.parse().context("client")?,
            host: host.parse().context("host")?,
            keys: keys.split(',').map(Into::into).collect(),
            ttl: Duration::from_millis(ttl.parse().context("ttl")?),
            history: history.into(),
            resource: resource.into(),
            seed: seed.parse().context("seed")?,
            broken: broken == "broken",
        })
    }
}

/// One of the things a process does at a time.
struct HolderProcess {
    keeper: Keeper,
    store: Arc<Recorder>,
    log: Arc<Log>,
    resource: Resource,
    args: Args,
    ending: Arc<AtomicBool>,
    rng: SeededRng,
}

/// Holds and acts until `ending` is set, then gives everything back.
pub async fn run(args: Args, ending: Arc<AtomicBool>) -> Result<()> {
    let log = Arc::new(Log::open(&args.history, args.client)?);
    let name = format!("holder-{}", args.client);
    log.note(What::Started { client: args.client, host: args.host, holder: name.clone() })?;
    let Some(store) = connect(&args, &ending).await else { return Ok(()) };
    let store = Arc::new(Recorder { store, log: log.clone() });
    let keeper = Keeper::new(store.clone() as Arc<dyn Store>, Holder::new(name)?);
    let mut hands = JoinSet::new();
    for number in 0..HANDS {
        let hand = HolderProcess {
            keeper: keeper.clone(),
            store: store.clone(),
            log: log.clone(),
            resource: Resource::new(&args.resource),
            args: args.clone(),
            ending: ending.clone(),
            rng: SeededRng::new(args.seed.wrapping_add(number)),
        };
        hands.spawn(hand.work());
    }
    while let Some(done) = hands.join_next().await {
        done??;
    }
    keeper.settled().await;
    Ok(())
}

/// The server may be down for the moment.
async fn connect(args: &Args, ending: &AtomicBool) -> Option<Arc<dyn Store>> {
    while !ending.load(Ordering::Relaxed) {
        let mut options = tenure_store::OpenOptions::default();
        if let Some(token) = &args.api_token {
            options.remote = options.remote.token(token);
        }
        match tenure_store::Store::open_with(&args.url, options).await {
            Ok(store) => return Some(store.into()),
            Err(_) => nap(Duration::from_millis(50)).await,
        }
    }
    None
}

async fn nap(time: Duration) {
    tenure_store::BootClock.sleep_until(clock::now() + time).await;
}

impl HolderProcess {
    fn over(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }

    async fn work(mut self) -> Result<()> {
        let terms = Terms::new(Ttl::from_millis(self.args.ttl.as_millis() as u64)?);
        while !self.over() {
            let key = self.rng.below(self.args.keys.len() as u64) as usize;
            let key = Key::new(&self.args.keys[key])?;
            let wait = self.rng.time(Duration::ZERO, self.args.ttl * 2);
            match self.keeper.acquire(key, terms.clone(), wait).await {
                Ok(guard) => self.hold(guard).await?,
                Err(_) => nap(self.args.ttl / 50).await,
            }
        }
        Ok(())
    }

    async fn hold(&mut self, guard: Guard) -> Result<()> {
        let lasts = self.rng.time(self.args.ttl / 10, self.args.ttl * 2);
        let end = clock::now() + if self.args.broken { FOR_EVER } else { lasts };
        // What a broken holder keeps instead of asking.
        let first = guard.permit(Duration::ZERO).ok().map(|permit| permit.fence(Mode::Monotonic));
        while clock::now() < end && !self.over() {
            match (guard.permit(Duration::ZERO), &first) {
                (Ok(permit), _) => self.act(&permit).await?,
                (Err(_), Some(fence)) if self.args.broken => {
                    let until = (clock::now() + FOR_EVER).as_nanos();
                    self.note_permit(
                        fence.key.as_str(),
                        fence.generation.get(),
                        id(fence.token.digest()),
                        until,
                    )?;
                }
                (Err(PermitError::Lost(_)), _) => return Ok(()),
                (Err(_), _) => {}
            }
            nap(self.rng.time(Duration::from_millis(2), Duration::from_millis(25))).await;
        }
        // Some only let go: then the reaper gives back.
        if self.rng.below(4) > 0 {
            drop(guard.release().await);
        }
        Ok(())
    }

    fn note_permit(&self, key: &str, generation: u64, token: u64, until: u64) -> Result<u64> {
        let (permit, client) = (self.log.number(), self.args.client);
        self.log.note(What::Permit { permit, client, key: key.into(), generation, token, until })?;
        Ok(permit)
    }

    /// One act under a permit: a write to the file or to a record, each fenced.
    async fn act(&mut self, permit: &Permit<'_>) -> Result<()> {
        let mode = if self.rng.below(2) == 0 { Mode::Strict } else { Mode::Monotonic };
        let fence = permit.fence(mode);
        let (key, generation) = (fence.key.as_str(), fence.generation.get());
        let token = id(fence.token.digest());
        let until = permit.deadline().tick().as_nanos();
        let number = self.note_permit(key, generation, token, until)?;
        if self.rng.below(2) == 0 {
            // Stopped between here and the write, it wakes up after its time: the mark is what keeps it out.
            nap(self.rng.time(Duration::ZERO, Duration::from_millis(20))).await;
            if let Some(locked) = self.resource.lock(key)? {
                let accepted = locked.write(generation, token)?;
                let (key, client) = (key.to_owned(), self.args.client);
                self.log.note(What::Wrote { key, client, generation, token, accepted, strict: false })?;
            }
        } else {
            let record = Key::new(format!("record/{key}"))?;
            let value = generation.to_string().into_bytes().into();
            drop(self.store.write_fenced(&fence, &[Op::Put { key: record, value, ttl: None }]).await);
        }
        self.log.note(What::PermitOver { permit: number })?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_survive_a_round_trip() {
        let args = Args {
            url: "redis://h".into(),
            api_token: None,
            client: 7,
            host: 2,
            keys: vec!["a".into(), "b".into()],
            ttl: Duration::from_millis(1_500),
            history: "h".into(),
            resource: "r".into(),
            seed: u64::MAX,
            broken: true,
        };
        let again = Args::parse(&args.to_args()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{args:?}"));
        assert!(Args::parse(&args.to_args()[1..]).is_err());
    }
}
