//! Bundles, slots, gates and rosters.

use std::sync::Arc;
use std::time::Duration;

use tenure_keeper::{Bundle, Gate, Result, Roster, Slots};
use tenure_lease::{Key, Meta, Placement, Prefix};

use super::hold::Hold;
use super::{Process, ms};
use crate::history::{TokenId, What};
use crate::plan::{JOBS, SLOTS};
use crate::rng::Rng;
use crate::simulation::Item;

/// Something that holds keys, and the notes in the history when it is let go.
struct HeldComposite<T> {
    process: Arc<Process>,
    thing: Option<T>,
    tokens: Vec<(Key, TokenId)>,
}

impl<T> Drop for HeldComposite<T> {
    fn drop(&mut self) {
        drop(self.thing.take());
        let now = self.process.true_now();
        let mut state = self.process.simulation.lock();
        if state.lives(self.process.host, self.process.client) {
            for (key, token) in &self.tokens {
                state.record.dropped(now, self.process.client, key.as_str(), *token);
            }
        }
    }
}

impl Process {
    pub(super) async fn bundle(self: &Arc<Self>, keys: [u8; 2], wait: Duration, mut rng: Rng) -> Result<()> {
        let mut wants = Vec::new();
        for key in keys {
            wants.push((self.key(key)?, self.terms()?));
        }
        let mut attempt = self.attempt();
        let bundle = attempt.of(Bundle::acquire(&self.keeper, &wants, wait)).await?;
        let tokens = bundle
            .guards()
            .iter()
            .map(|g| (g.key().clone(), attempt.keep(g.key(), g.generation())))
            .collect();
        let mut kept = HeldComposite { process: self.clone(), thing: Some(bundle), tokens };
        for _ in 0..rng.within(1, 3) {
            let Some(bundle) = &kept.thing else { break };
            for guard in bundle.guards() {
                self.act(guard, &mut rng).await;
            }
        }
        if let Some(bundle) = kept.thing.take()
            && rng.chance(70)
        {
            bundle.release().await?;
        }
        Ok(())
    }

    pub(super) async fn slot(self: &Arc<Self>, wait: Duration, acts: u8, mut rng: Rng) -> Result<()> {
        let slots = Slots::new(&self.keeper, Key::new("s")?, SLOTS)?;
        self.simulation.note(What::Slots { prefix: "s/".into(), offered: SLOTS });
        let mut attempt = self.attempt();
        let guard = attempt.of(slots.take(self.terms()?, wait)).await?.into_guard();
        let token = attempt.keep(guard.key(), guard.generation());
        let hold = Hold::new(self, guard, token);
        self.acts(&hold, acts, &mut rng).await;
        Ok(())
    }

    pub(super) async fn gate(self: &Arc<Self>, wipe: bool, keep: Duration, mut rng: Rng) -> Result<()> {
        let (simulation, host, client) = (self.simulation.clone(), self.host, self.client);
        // The process ends when its gate is lost.
        let die = move |_| simulation.after(1, Item::Die(host, client));
        let mut attempt = self.attempt();
        let opening = Gate::open_with(&self.keeper, Key::new("gate")?, self.terms()?, die);
        let gate = attempt.of(opening).await?;
        let tokens = vec![(gate.key().clone(), attempt.keep(gate.key(), gate.generation()))];
        let mut kept = HeldComposite { process: self.clone(), thing: Some(gate), tokens };
        if let Some(gate) = &kept.thing {
            self.act(gate, &mut rng).await;
            if wipe {
                drop(gate.wipe(Prefix::new("k/")?).await);
            }
            self.sleep(keep).await;
            self.believe(gate);
        }
        if let Some(gate) = kept.thing.take()
            && rng.chance(70)
        {
            gate.close().await?;
        }
        Ok(())
    }

    /// Takes its share of the jobs, as placement sees it, for as long as it looks right.
    pub(super) async fn share(self: &Arc<Self>, acts: u8, mut rng: Rng) -> Result<()> {
        let (prefix, node) = (Prefix::new("node/")?, format!("n{}", self.host));
        let joining = Roster::join(&self.keeper, prefix, &node, Meta::default(), self.terms()?);
        let attempt = self.attempt();
        let joined = attempt.of(joining).await;
        // The roster keeps its place by itself.
        match joined {
            Ok(roster) => {
                attempt.forget();
                let quiet = ms(self.plan.ttl_ms / 4);
                for _ in 0..2 {
                    let live = roster.settle(quiet).await?;
                    let names: Vec<&str> = live.iter().map(|member| member.name.as_str()).collect();
                    self.jobs(&node, &names, acts, &mut rng).await?;
                }
                roster.leave().await;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    async fn jobs(self: &Arc<Self>, node: &str, names: &[&str], acts: u8, rng: &mut Rng) -> Result<()> {
        for job in 0..JOBS {
            let key = Key::new(format!("job/{job}"))?;
            if Placement::Balanced.prefer(key.as_str(), names) != Some(node) {
                continue;
            }
            let taking = self.keeper.acquire(key, self.terms()?, ms(self.plan.ttl_ms));
            if let Some(hold) = super::hold::none(self.take(taking).await)?.flatten() {
                self.acts(&hold, acts, rng).await;
            }
        }
        Ok(())
    }
}
