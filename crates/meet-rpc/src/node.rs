//! A node in the registry: it holds its lease and reports to GC.
//!
//! Only the lease decides whether a node is alive. The node registers with GC and then reports its load periodically. When GC
//! no longer knows the node, it registers again.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure_keeper::{Guard, Keeper, Terms};
use tenure_lease::{Clock, Key};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::{Kind, NodeInfo, ServiceRole, limits};

/// What a node is registered with.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Its region.
    pub region: String,
    /// Its zone within the region.
    pub zone: String,
    /// The gRPC endpoint for other roles.
    pub grpc_endpoint: String,
    /// The WebTransport endpoint for clients.
    pub webtransport_endpoint: String,
    /// The hashes of its certificates, which rotate.
    pub certificates: watch::Receiver<Vec<Vec<u8>>>,
    /// The software version.
    pub version: String,
}

impl Listing {
    /// Returns the node info with the current certificate hashes.
    pub fn node_info(&self) -> NodeInfo {
        let node_info = NodeInfo {
            region: self.region.clone(),
            zone: self.zone.clone(),
            grpc_endpoint: self.grpc_endpoint.clone(),
            webtransport_endpoint: self.webtransport_endpoint.clone(),
            version: self.version.clone(),
            ..NodeInfo::default()
        };
        node_info.certificates(self.certificates.borrow().iter().map(Vec::as_slice))
    }

    /// Waits until the certificate hashes differ from those in `node_info`. Never returns if they do not rotate.
    pub async fn changed(&self, node_info: &NodeInfo) {
        let known = node_info.raw_certificates();
        let mut certificates = self.certificates.clone();
        if certificates.wait_for(|now| *now != known).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The report intervals that GC sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReportIntervals {
    /// Interval of load reports.
    pub fast: Duration,
    /// Interval of full reports, if it differs.
    pub full: Option<Duration>,
}

/// A kind of report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Report {
    /// The load.
    Fast,
    /// The full state.
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

/// The node's side of the protocol with GC.
#[async_trait]
pub trait Member: Send + Sync + 'static {
    /// The info published in the lease.
    fn node_info(&self) -> NodeInfo;

    /// Registers with GC.
    async fn register(&self, node_info: &NodeInfo) -> Result<ReportIntervals, Status>;

    /// Reports to GC.
    async fn report(&self, report: Report) -> Result<(), Status>;

    /// Waits until a report is due before its interval ends.
    async fn report_due(&self);

    /// Waits until the node info differs from this one.
    async fn changed(&self, node_info: &NodeInfo);
}

/// The registration state of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegistrationState {
    /// The node holds no lease yet.
    NoLease,
    /// The node holds its lease but is not registered with GC.
    LeaseHeld,
    /// The node is registered with GC.
    Registered,
    /// The node lost its lease and is reacquiring it.
    LeaseLost,
}

/// Identifies the process of a node, and recognizes a predecessor that is dead.
#[derive(Clone)]
pub struct ProcessProof {
    /// Identifies this process.
    pub process: String,
    /// Whether the process that another text identifies is proven dead. In doubt it is not.
    pub is_dead: Arc<dyn Fn(&str) -> bool + Send + Sync>,
}

/// Why the lease of a node is not held yet.
struct NotHeld {
    why: String,
    /// How long another holder has it.
    remaining: Option<Duration>,
}

impl From<tenure_keeper::Error> for NotHeld {
    fn from(error: tenure_keeper::Error) -> Self {
        Self { remaining: error.busy().and_then(|busy| busy.remaining), why: error.to_string() }
    }
}

impl From<tenure_lease::Error> for NotHeld {
    fn from(error: tenure_lease::Error) -> Self {
        Self { why: error.to_string(), remaining: None }
    }
}

/// Keeps one node registered.
pub struct Node {
    role: ServiceRole,
    keeper: Keeper,
    key: Key,
    terms: Terms,
    member: Arc<dyn Member>,
    proof: Option<ProcessProof>,
    registration: watch::Sender<RegistrationState>,
}

impl Node {
    /// Creates a node of this kind and id, whose lease the keeper holds.
    pub fn new(
        kind: Kind,
        keeper: Keeper,
        id: &str,
        terms: Terms,
        member: Arc<dyn Member>,
    ) -> tenure_lease::Result<Self> {
        let key = kind.lease(id)?;
        let role = match kind {
            Kind::Controller => ServiceRole::Mc,
            Kind::Handler => ServiceRole::Mh,
        };
        Ok(Self {
            role,
            keeper,
            key,
            terms,
            member,
            proof: None,
            registration: watch::Sender::new(RegistrationState::NoLease),
        })
    }

    /// Replaces a predecessor under the same id at once, if it is proven dead.
    #[must_use]
    pub fn proving(self, proof: Option<ProcessProof>) -> Self {
        Self { proof, ..self }
    }

    /// Subscribes to the registration state.
    pub fn registration_state(&self) -> watch::Receiver<RegistrationState> {
        self.registration.subscribe()
    }

    /// Keeps the node registered until `stop`, then releases the lease.
    pub async fn run(self, stop: CancellationToken) {
        let mut pause = Pause::default();
        loop {
            let node_info = self.member.node_info();
            let guard = tokio::select! {
                biased;
                () = stop.cancelled() => return,
                guard = self.hold(&node_info, &mut pause) => guard,
            };
            self.registration.send_replace(RegistrationState::LeaseHeld);
            let changed = tokio::select! {
                biased;
                () = stop.cancelled() => {
                    self.leave(guard).await;
                    return;
                }
                lost = guard.lost() => {
                    tracing::warn!(key = %self.key, ?lost, "registry lease lost");
                    false
                }
                () = self.member.changed(&node_info) => true,
                () = self.serve(&node_info) => false,
            };
            if changed {
                // The meta of a held lease is fixed, so a changed node info needs a new lease.
                self.leave(guard).await;
            } else {
                self.registration.send_replace(RegistrationState::LeaseLost);
                pause.wait(&**self.keeper.clock()).await;
            }
        }
    }

    async fn leave(&self, guard: Guard) {
        self.registration.send_replace(RegistrationState::NoLease);
        if let Err(error) = guard.release().await {
            tracing::debug!(key = %self.key, %error, "registry lease not released; it expires with its TTL");
        }
    }

    /// Acquires the lease, retrying until it succeeds. While another holder has it, exactly the rest of that lease is
    /// waited for.
    async fn hold(&self, node_info: &NodeInfo, pause: &mut Pause) -> Guard {
        let clock = self.keeper.clock();
        loop {
            let NotHeld { why, remaining } = match self.claim(node_info).await {
                Ok(guard) => {
                    pause.reset();
                    return guard;
                }
                Err(not_held) => not_held,
            };
            tracing::warn!(key = %self.key, why, "cannot acquire the registry lease yet");
            match remaining {
                Some(rest) => {
                    let (least, most) = limits::LEASE_REST;
                    clock.sleep_until(clock.now() + rest.clamp(least, most)).await;
                }
                None => pause.wait(&**clock).await,
            }
        }
    }

    async fn claim(&self, node_info: &NodeInfo) -> Result<Guard, NotHeld> {
        let process = self.proof.as_ref().map(|proof| proof.process.clone()).unwrap_or_default();
        let meta = NodeInfo { process, ..node_info.clone() }.meta()?;
        let terms = self.terms.clone().meta(meta);
        let clock = self.keeper.clock();
        tokio::select! {
            biased;
            claimed = self.acquire(terms) => claimed,
            () = clock.sleep_until(clock.now() + limits::CALL) => {
                Err(NotHeld { why: "store timed out".to_owned(), remaining: None })
            }
        }
    }

    async fn acquire(&self, terms: Terms) -> Result<Guard, NotHeld> {
        let busy = match self.keeper.try_acquire(self.key.clone(), terms.clone()).await {
            Err(error) if error.busy().is_some() => error,
            acquired => return Ok(acquired?),
        };
        let Some(proof) = &self.proof else { return Err(busy.into()) };
        let status = self.keeper.store().inspect(&self.key).await?;
        let process = NodeInfo::read(&status.meta).map(|info| info.process).filter(|text| !text.is_empty());
        match (status.generation, process) {
            (Some(dead), Some(process)) if (proof.is_dead)(&process) => {
                tracing::warn!(key = %self.key, generation = %dead, "the previous process is dead; taking its lease");
                Ok(self.keeper.replace(self.key.clone(), terms, dead).await?)
            }
            _ => Err(busy.into()),
        }
    }

    /// Registers and reports until dropped.
    async fn serve(&self, node_info: &NodeInfo) {
        loop {
            let intervals = self.register(node_info).await;
            self.registration.send_replace(RegistrationState::Registered);
            self.report(intervals).await;
            self.registration.send_replace(RegistrationState::LeaseHeld);
        }
    }

    async fn register(&self, node_info: &NodeInfo) -> ReportIntervals {
        let mut pause = Pause::default();
        loop {
            match self.member.register(node_info).await {
                Ok(intervals) => {
                    tracing::info!(key = %self.key, ?intervals, "registered with the global controller");
                    self.role.heartbeat("registered", "register");
                    return intervals;
                }
                Err(status) => {
                    self.role.heartbeat("failed", "register");
                    tracing::warn!(key = %self.key, code = ?status.code(), why = status.message(), "the global controller rejected the registration");
                }
            }
            pause.wait(&**self.keeper.clock()).await;
        }
    }

    /// Reports until GC no longer knows the node.
    async fn report(&self, intervals: ReportIntervals) {
        let clock = self.keeper.clock();
        let (least, most) = limits::REPORT_INTERVAL;
        let fast = intervals.fast.clamp(least, most);
        let full = intervals.full.map(|full| full.clamp(least, most));
        let mut fast_at = clock.now() + fast;
        let mut full_at = full.map(|full| clock.now() + full);
        loop {
            let due = full_at.map_or(fast_at, |full_at| full_at.min(fast_at));
            tokio::select! {
                biased;
                () = clock.sleep_until(due) => {}
                () = self.member.report_due() => fast_at = clock.now(),
            }
            let now = clock.now();
            if let Some((at, full)) = full_at.zip(full)
                && now >= at
            {
                full_at = Some(now + full);
                // A full report includes the load.
                fast_at = now + fast;
                if !self.send_report(Report::Full).await {
                    return;
                }
            } else if now >= fast_at {
                fast_at = now + fast;
                if !self.send_report(Report::Fast).await {
                    return;
                }
            }
        }
    }

    /// Sends one report. Returns whether GC still knows the node.
    async fn send_report(&self, report: Report) -> bool {
        let clock = self.keeper.clock();
        let sent = clock.now();
        let result = self.member.report(report).await;
        self.role.heartbeat_took(report.as_str(), clock.now().since(sent));
        match result {
            Ok(()) => self.role.heartbeat("success", report.as_str()),
            Err(status) if status.code() == Code::NotFound => {
                self.role.heartbeat("not_found", report.as_str());
                tracing::warn!(key = %self.key, "unknown to the global controller; registering again");
                return false;
            }
            Err(status) => {
                self.role.heartbeat("error", report.as_str());
                tracing::debug!(key = %self.key, code = ?status.code(), "report failed; the next one follows");
            }
        }
        true
    }
}

/// Doubles the pause between attempts, up to a limit.
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
