//! Controllers on one store, without connections: inputs are applied and their changes persisted.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_keeper::{Guard, Keeper, OsEntropy, Terms};
use tenure_lease::{Holder, Store, Ttl, Wall};
use tenure_meet_mc::meeting::{
    Context, Effects, Input, Join, Meeting, NewIds, Now, Request, ResumeProof, Role, Seat, Settings, Welcome,
    Write, apply,
};
use tenure_meet_mc::{CircuitBreaker, ControllerState, Ledger, LedgerError, MeetingKeys};
use tenure_meet_wire::binding::{MasterSecret, Nonce, Secrets};
use tenure_meet_wire::{Id, MeetingId};

pub(crate) const TTL: Duration = Duration::from_secs(9);

pub(crate) fn meeting() -> MeetingId {
    MeetingId::parse("abc").unwrap()
}

pub(crate) fn secrets() -> Secrets {
    Secrets::new(MasterSecret::new(vec![7; 32]).unwrap())
}

/// One controller that owns the meeting.
pub(crate) struct Mc {
    pub(crate) guard: Guard,
    pub(crate) ledger: Ledger,
    pub(crate) state: Meeting,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shared: ControllerState,
    _keeper: Keeper,
}

pub(crate) async fn hold(store: &Arc<dyn Store>, mc_id: &str) -> (Keeper, Guard) {
    let keeper = Keeper::new(store.clone(), Holder::new(mc_id).unwrap());
    let terms = Terms::new(Ttl::from_millis(TTL.as_millis() as u64).unwrap());
    let key = MeetingKeys::new(&meeting()).lease().unwrap();
    let guard = keeper.acquire(key, terms, 3 * TTL).await.unwrap();
    (keeper, guard)
}

pub(crate) fn shared(store: &Arc<dyn Store>, mc_id: &str) -> ControllerState {
    let breaker = Arc::new(Mutex::new(CircuitBreaker::default()));
    ControllerState { store: store.clone(), breaker, mc_id: mc_id.to_owned(), latency: Default::default() }
}

impl Mc {
    pub(crate) async fn take(store: &Arc<dyn Store>, mc_id: &str) -> Result<Self, LedgerError> {
        let (keeper, guard) = hold(store, mc_id).await;
        let shared = shared(store, mc_id);
        let opened = Ledger::open(shared.clone(), guard.share(), &meeting(), &Settings::default(), &[]).await;
        let (ledger, state) = opened?;
        Ok(Self { guard, ledger, state, store: store.clone(), shared, _keeper: keeper })
    }

    pub(crate) fn now(&self) -> Now {
        let clock = self.store.clock();
        Now { tick: clock.now(), wall: clock.wall() }
    }

    /// Applies an input as an owner does: decide, persist, change the state.
    pub(crate) async fn perform(&mut self, event: &Input) -> Result<Effects, LedgerError> {
        let now = self.now();
        let secrets = secrets();
        let effects = apply(&self.state, event, &Context { now, secrets: &secrets }).unwrap();
        match effects.write {
            Write::Sync => self.ledger.write(&effects.changes).await?,
            Write::Async => self.ledger.enqueue(&effects.changes)?,
            Write::None => {}
        }
        self.state.apply_changes(&effects.changes, now);
        Ok(effects)
    }

    pub(crate) fn joining(&self, user: &str, role: Role) -> Join {
        let wall: Wall = self.store.clock().wall();
        let ids = NewIds {
            participant: Id::new(wall, &OsEntropy),
            correlation: Id::new(wall, &OsEntropy),
            nonce: Nonce::new(&OsEntropy),
        };
        let (user, name, attempt) = (user.to_owned(), user.to_uppercase(), "1".to_owned());
        Join { user, name, role, resume: None, attempt, last_event_seq: 0, admitted: false, ids }
    }

    pub(crate) fn returning(&self, welcome: &Welcome) -> Join {
        let mut join = self.joining(&welcome.seat.user, welcome.seat.role);
        join.last_event_seq = welcome.event_seq;
        let (correlation, token) = (welcome.seat.binding.correlation, welcome.token.as_str().to_owned());
        join.resume = Some(ResumeProof { correlation, token });
        join
    }

    pub(crate) async fn join(&mut self, join: Join) -> Result<Welcome, LedgerError> {
        let effects = self.perform(&Input::Join(Box::new(join))).await?;
        Ok(*effects.welcome.unwrap())
    }

    pub(crate) async fn seat(&mut self, user: &str, role: Role) -> Result<Welcome, LedgerError> {
        self.join(self.joining(user, role)).await
    }

    pub(crate) async fn ask(&mut self, seat: &Seat, request: Request) -> Result<Effects, LedgerError> {
        let seq = self.state.seats[&seat.participant].applied.number() + 1;
        let (participant, epoch) = (seat.participant, seat.epoch);
        self.perform(&Input::Request { participant, epoch, seq, request }).await
    }

    pub(crate) async fn chat(&mut self, seat: &Seat, text: &str) -> Result<Effects, LedgerError> {
        self.ask(seat, Request::Chat { text: text.to_owned() }).await
    }
}
