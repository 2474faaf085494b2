//! What clients do: the real keeper's verbs, with everything that matters written down.

mod composites;
mod hold;
mod misuse;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::{GuardState, Keeper, LeaseHandle, Permit, Terms};
use tenure_lease::breaks::{Break, broken};
use tenure_lease::{Clock, Entropy, Generation, HighWaterMark, Holder, Key, Margins, Tick, Ttl};

use crate::history::{Belief, Client, Nanos, PermitId, TokenId, What, token_id};
use crate::plan::{Act, Plan, Task};
use crate::rng::Rng;
use crate::simulation::clock::HostClock;
use crate::simulation::stub::{Scoped, Stub};
use crate::simulation::wire::Packet;
use crate::simulation::{HostId, SERVER, Simulation};

/// One process with its keeper.
pub(crate) struct Process {
    pub(crate) simulation: Arc<Simulation>,
    pub(crate) host: HostId,
    pub(crate) client: Client,
    pub(crate) keeper: Keeper,
    pub(crate) store: Arc<Stub>,
    pub(crate) clock: HostClock,
    pub(crate) plan: Arc<Plan>,
    /// Fences of permits that are over: writes under them may still be on their way.
    old: Mutex<Vec<(Key, HighWaterMark, TokenId)>>,
}

/// Numbers for tokens and jitter, from the seed.
pub(crate) struct SimEntropy(pub(crate) Mutex<Rng>);

impl Entropy for SimEntropy {
    fn fill(&self, bytes: &mut [u8]) {
        let mut rng = self.0.lock();
        for chunk in bytes.chunks_mut(8) {
            let number = if broken(Break::NonceReuse) { 7 } else { rng.number() };
            chunk.copy_from_slice(&number.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// The name under which a host holds.
pub(crate) fn holder(plan: &Plan, host: HostId) -> Result<Holder, tenure_lease::Error> {
    let name = plan.hosts.get(host as usize).map_or(host as u8, |machine| machine.name);
    Holder::new(format!("h{name}"))
}

pub(crate) fn ms(n: u32) -> Duration {
    Duration::from_millis(u64::from(n))
}

impl Process {
    /// Starts a process inside its runtime.
    pub(crate) fn start(
        simulation: &Arc<Simulation>,
        plan: &Arc<Plan>,
        host: HostId,
        client: Client,
        clock: HostClock,
        capabilities: tenure_lease::Capabilities,
    ) -> Result<Arc<Self>, tenure_lease::Error> {
        let store = Arc::new(Stub {
            simulation: simulation.clone(),
            host,
            client,
            clock: clock.clone(),
            capabilities,
        });
        let margins = match broken(Break::NoMargin) {
            true => Margins::new(0, Some(Duration::ZERO))?,
            false => Margins::new(plan.bound_ppm, None)?,
        };
        let entropy = SimEntropy(Mutex::new(simulation.lock().rng.fork()));
        let keeper = Keeper::builder(store.clone() as Arc<dyn tenure_lease::Store>, holder(plan, host)?)
            .margins(margins)
            .entropy(Arc::new(entropy))
            .without_watchdog()
            .build();
        let (simulation, plan, old) = (simulation.clone(), plan.clone(), Mutex::default());
        Ok(Arc::new(Self { simulation, host, client, keeper, store, clock, plan, old }))
    }

    /// Does the tasks of one lane, from the given one on.
    pub(crate) async fn lane(self: Arc<Self>, tasks: Vec<Task>, mut rng: Rng, progress: Arc<Mutex<usize>>) {
        for task in tasks {
            self.sleep(ms(task.rest_ms)).await;
            *progress.lock() += 1;
            let work = self.task(task.act, rng.fork());
            match task.cut_ms {
                None => work.await,
                Some(cut) => {
                    let enough = self.sleep(ms(cut));
                    tokio::select! {
                        biased;
                        () = work => {}
                        () = enough => {}
                    }
                }
            }
        }
    }

    async fn task(self: &Arc<Self>, act: Act, rng: Rng) {
        // Failures are part of the world: what matters is in the history.
        let done = match act {
            Act::Hold { key, wait_ms, acts, end } => self.hold(key, ms(wait_ms), acts, end, rng).await,
            Act::Run { key, wait_ms, acts } => self.run(key, ms(wait_ms), acts, rng).await,
            Act::Bundle { first, second, wait_ms } => self.bundle([first, second], ms(wait_ms), rng).await,
            Act::Slot { wait_ms, acts } => self.slot(ms(wait_ms), acts, rng).await,
            Act::Gate { wipe, keep_ms } => self.gate(wipe, ms(keep_ms), rng).await,
            Act::Share { acts } => self.share(acts, rng).await,
            Act::Revoke { key } => self.revoke(key).await,
            Act::Forge { key } => self.forge(key, rng).await,
            Act::Overstay { key, late_ms } => self.overstay(key, ms(late_ms), rng).await,
        };
        if let Err(error) = done {
            let mut state = self.simulation.lock();
            if state.record.secrets.is_some() {
                state.record.output.push_str(&format!("{error:?} {error}\n"));
            }
        }
    }

    /// Takes again what an earlier life of this host held when it died.
    pub(crate) async fn take_back(self: Arc<Self>, held: Vec<(Key, Generation)>, rng: Rng) {
        for (key, dead) in held {
            let Ok(terms) = self.terms() else { return };
            let taking = self.keeper.replace(key, terms, dead);
            if let Ok(Some(hold)) = self.take(taking).await {
                self.acts(&hold, 1, &mut rng.clone()).await;
                drop(hold);
            }
        }
    }

    pub(crate) fn terms(&self) -> Result<Terms, tenure_lease::Error> {
        Ok(Terms::new(Ttl::from_millis(u64::from(self.plan.ttl_ms))?))
    }

    pub(crate) fn key(&self, number: u8) -> Result<Key, tenure_lease::Error> {
        Key::new(format!("k/{number}"))
    }

    pub(crate) fn sleep(&self, time: Duration) -> impl Future<Output = ()> + Send + 'static {
        self.clock.sleep_until(self.clock.now() + time)
    }

    pub(crate) fn lives(&self) -> bool {
        self.simulation.lock().lives(self.host, self.client)
    }

    /// A store call that takes at most a TTL.
    pub(crate) async fn bounded<T>(
        &self,
        call: impl Future<Output = tenure_lease::Result<T>>,
    ) -> tenure_lease::Result<T> {
        let limit = self.sleep(ms(self.plan.ttl_ms));
        tokio::select! {
            biased;
            answer = call => answer,
            () = limit => Err(tenure_lease::Error::unknown("sim", "no answer in time")),
        }
    }

    /// An attempt to hold something: whatever it sends and does not keep is let go at its end.
    pub(crate) fn attempt(self: &Arc<Self>) -> Attempt {
        let id = self.simulation.lock().record.number();
        Attempt { process: self.clone(), id, kept: Vec::new(), forget: false }
    }

    /// Writes down what a guard believes.
    pub(crate) fn believe(&self, held: &LeaseHandle) -> Option<TokenId> {
        let state = match held.state() {
            GuardState::Held => Belief::Held,
            GuardState::Jeopardy => Belief::Jeopardy,
            GuardState::Suspended => Belief::Suspended,
            GuardState::Lost(_) => Belief::Lost,
        };
        let now = self.simulation.now();
        let mut simulation = self.simulation.lock();
        let token = simulation.record.token(self.client, held.key(), held.generation())?;
        let (client, key, generation) = (self.client, held.key().to_string(), held.generation().get());
        simulation.record.note(now, What::Guard { client, key, generation, token, state });
        Some(token)
    }

    /// Writes down a permit, and its end when the mark is dropped.
    pub(crate) fn mark(self: &Arc<Self>, permit: &Permit<'_>) -> PermitMark {
        let until = self.clock.true_time(permit.deadline().tick());
        let fence = permit.fence(tenure_lease::Mode::Strict);
        let token = token_id(fence.token.digest().as_bytes());
        let now = self.simulation.now();
        let mut simulation = self.simulation.lock();
        let number = simulation.record.permit(self.client);
        let (client, key, generation) = (self.client, fence.key.to_string(), fence.generation.get());
        simulation.record.note(now, What::Permit { permit: number, client, key, generation, token, until });
        PermitMark { process: self.clone(), permit: number }
    }

    /// Writes to the resource beside the store.
    pub(crate) fn write(&self, key: &Key, mark: HighWaterMark, token: TokenId) {
        let packet = Packet::Write { client: self.client, key: key.clone(), mark, token };
        self.simulation.send(self.host, self.client, SERVER, packet);
    }

    pub(crate) fn now(&self) -> Tick {
        self.clock.now()
    }

    pub(crate) fn true_now(&self) -> Nanos {
        self.simulation.now()
    }
}

/// See [`Process::attempt`].
pub(crate) struct Attempt {
    process: Arc<Process>,
    id: u64,
    kept: Vec<TokenId>,
    forget: bool,
}

impl Attempt {
    /// Runs a part of the attempt.
    pub(crate) fn of<F: Future>(&self, work: F) -> Scoped<F> {
        Scoped { attempt: self.id, work: Box::pin(work) }
    }

    /// What was got is kept; answers its token.
    pub(crate) fn keep(&mut self, key: &Key, generation: Generation) -> TokenId {
        let process = &self.process;
        let token =
            process.simulation.lock().record.token(process.client, key, generation).unwrap_or_default();
        self.kept.push(token);
        token
    }

    /// The result is handled elsewhere.
    pub(crate) fn forget(mut self) {
        self.forget = true;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.forget && self.process.lives() {
            let now = self.process.true_now();
            let mut state = self.process.simulation.lock();
            state.record.settle(now, self.process.client, self.id, &self.kept);
        }
    }
}

/// See [`Process::mark`].
pub(crate) struct PermitMark {
    process: Arc<Process>,
    permit: PermitId,
}

impl Drop for PermitMark {
    fn drop(&mut self) {
        if self.process.lives() {
            let now = self.process.true_now();
            self.process.simulation.lock().record.permit_over(now, self.process.client, self.permit);
        }
    }
}
