//! The place of a node in the registry: its own lease, and what it tells GC while it holds it.
//!
//! Who lives is said by the lease alone. GC is told that the node is there, and then now and then how much it has to do; a GC that has
//! forgotten it is told again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use lease::{Clock, Key};
use lease_keeper::{Guard, Keeper, Terms};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::{Card, Kind, Part, limits};

/// What a node is registered with.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Where it is.
    pub region: String,
    /// Where in that region.
    pub zone: String,
    /// Where other parts reach it.
    pub grpc_endpoint: String,
    /// Where clients reach it.
    pub webtransport_endpoint: String,
    /// The hashes of its certificates, which turn now and then.
    pub certificates: watch::Receiver<Vec<Vec<u8>>>,
    /// What it runs.
    pub version: String,
}

impl Listing {
    /// The card of a node with this listing, as it is now.
    pub fn card(&self) -> Card {
        let card = Card {
            region: self.region.clone(),
            zone: self.zone.clone(),
            grpc_endpoint: self.grpc_endpoint.clone(),
            webtransport_endpoint: self.webtransport_endpoint.clone(),
            version: self.version.clone(),
            ..Card::default()
        };
        card.certificates(self.certificates.borrow().iter().map(Vec::as_slice))
    }

    /// Waits until the certificates are others than a card says. For ever, if nobody turns them.
    pub async fn changed(&self, card: &Card) {
        let known = card.raw_certificates();
        let mut certificates = self.certificates.clone();
        if certificates.wait_for(|now| *now != known).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// How often GC wants to hear of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duty {
    /// Of its load.
    pub fast: Duration,
    /// Of everything, if that is something else.
    pub full: Option<Duration>,
}

/// What a node tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// Its load.
    Fast,
    /// Everything.
    Full,
}

impl Report {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Fast => "fast",
            Self::Full => "comprehensive",
        }
    }
}

/// What a node is to GC.
#[async_trait]
pub trait Member: Send + Sync + 'static {
    /// What others read in its lease.
    fn card(&self) -> Card;

    /// Tells GC that it is there.
    async fn register(&self, card: &Card) -> Result<Duty, Status>;

    /// Tells GC how much it has to do.
    async fn report(&self, report: Report) -> Result<(), Status>;

    /// Waits until there is something to report before its time.
    async fn stirred(&self);

    /// Waits until its card is another one than this.
    async fn changed(&self, card: &Card);
}

/// How a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It has no place yet.
    Nowhere,
    /// It holds its lease, and GC has not been told.
    Held,
    /// GC knows it.
    Registered,
    /// It lost its lease, and tries to have it again.
    Lost,
}

/// Keeps the place of one node.
pub struct Node {
    part: Part,
    keeper: Keeper,
    key: Key,
    terms: Terms,
    member: Arc<dyn Member>,
    standing: watch::Sender<Standing>,
}

impl Node {
    /// A node of this kind and name, which the keeper holds for.
    pub fn new(
        kind: Kind,
        keeper: Keeper,
        id: &str,
        terms: Terms,
        member: Arc<dyn Member>,
    ) -> lease::Result<Self> {
        let key = kind.lease(id)?;
        let part = match kind {
            Kind::Controller => Part::Mc,
            Kind::Handler => Part::Mh,
        };
        Ok(Self { part, keeper, key, terms, member, standing: watch::Sender::new(Standing::Nowhere) })
    }

    /// How it stands, from now on.
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }

    /// Keeps the place until it is told to stop, then gives it back.
    pub async fn run(self, stop: CancellationToken) {
        let mut pause = Pause::default();
        loop {
            let card = self.member.card();
            let guard = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                guard = self.hold(&card, &mut pause) => guard,
            };
            self.standing.send_replace(Standing::Held);
            let changed = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    self.leave(guard).await;
                    return;
                }
                lost = guard.lost() => {
                    tracing::warn!(key = %self.key, ?lost, "the place in the registry is lost");
                    false
                }
                () = self.member.changed(&card) => true,
                () = self.serve(&card) => false,
            };
            if changed {
                // Others read the card in the lease, which says one thing as long as it is held.
                self.leave(guard).await;
            } else {
                self.standing.send_replace(Standing::Lost);
                pause.wait(&**self.keeper.clock()).await;
            }
        }
    }

    async fn leave(&self, guard: Guard) {
        self.standing.send_replace(Standing::Nowhere);
        if let Err(error) = guard.release().await {
            tracing::debug!(key = %self.key, %error, "the place in the registry ends by its TTL");
        }
    }

    /// Takes the lease, however long that takes.
    async fn hold(&self, card: &Card, pause: &mut Pause) -> Guard {
        loop {
            match self.claim(card).await {
                Ok(guard) => {
                    pause.reset();
                    return guard;
                }
                Err(why) => tracing::warn!(key = %self.key, why, "no place in the registry yet"),
            }
            pause.wait(&**self.keeper.clock()).await;
        }
    }

    async fn claim(&self, card: &Card) -> Result<Guard, String> {
        let meta = card.meta().map_err(|error| error.to_string())?;
        let terms = self.terms.clone().meta(meta);
        let clock = self.keeper.clock();
        tokio::select! {
            claimed = self.keeper.try_acquire(self.key.clone(), terms) => {
                claimed.map_err(|error| error.to_string())
            }
            () = clock.sleep_until(clock.now() + limits::CALL) => Err("the store does not answer".to_owned()),
        }
    }

    /// Tells GC, for as long as it is not dropped.
    async fn serve(&self, card: &Card) {
        loop {
            let duty = self.register(card).await;
            self.standing.send_replace(Standing::Registered);
            self.report(duty).await;
            self.standing.send_replace(Standing::Held);
        }
    }

    async fn register(&self, card: &Card) -> Duty {
        let mut pause = Pause::default();
        loop {
            match self.member.register(card).await {
                Ok(duty) => {
                    tracing::info!(key = %self.key, ?duty, "registered with the global controller");
                    self.part.heartbeat("registered", "register");
                    return duty;
                }
                Err(status) => {
                    self.part.heartbeat("failed", "register");
                    tracing::warn!(key = %self.key, code = ?status.code(), why = status.message(), "the global controller does not take the registration");
                }
            }
            pause.wait(&**self.keeper.clock()).await;
        }
    }

    /// Reports until GC does not know the node any more.
    async fn report(&self, duty: Duty) {
        let clock = self.keeper.clock();
        let (least, most) = limits::DUTY;
        let fast = duty.fast.clamp(least, most);
        let full = duty.full.map(|full| full.clamp(least, most));
        let mut fast_at = clock.now() + fast;
        let mut full_at = full.map(|full| clock.now() + full);
        loop {
            let due = full_at.map_or(fast_at, |full_at| full_at.min(fast_at));
            tokio::select! {
                () = clock.sleep_until(due) => {}
                () = self.member.stirred() => fast_at = clock.now(),
            }
            let now = clock.now();
            if let Some((at, full)) = full_at.zip(full)
                && now >= at
            {
                full_at = Some(now + full);
                // It says all that the other one would say.
                fast_at = now + fast;
                if !self.tell(Report::Full).await {
                    return;
                }
            } else if now >= fast_at {
                fast_at = now + fast;
                if !self.tell(Report::Fast).await {
                    return;
                }
            }
        }
    }

    /// Whether GC still knows the node.
    async fn tell(&self, report: Report) -> bool {
        let clock = self.keeper.clock();
        let sent = clock.now();
        let told = self.member.report(report).await;
        self.part.heartbeat_took(report.as_str(), clock.now().since(sent));
        match told {
            Ok(()) => self.part.heartbeat("success", report.as_str()),
            Err(status) if status.code() == Code::NotFound => {
                self.part.heartbeat("not_found", report.as_str());
                tracing::warn!(key = %self.key, "the global controller does not know this node any more; it registers again");
                return false;
            }
            Err(status) => {
                self.part.heartbeat("error", report.as_str());
                tracing::debug!(key = %self.key, code = ?status.code(), "a report was not taken; the next one follows");
            }
        }
        true
    }
}

/// The pause before the next try: longer every time.
struct Pause(Duration);

impl Default for Pause {
    fn default() -> Self {
        Self(limits::RETRY.0)
    }
}

impl Pause {
    fn reset(&mut self) {
        *self = Self::default();
    }

    async fn wait(&mut self, clock: &dyn Clock) {
        clock.sleep_until(clock.now() + self.0).await;
        self.0 = (self.0 * 2).min(limits::RETRY.1);
    }
}
