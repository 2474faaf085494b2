//! Whether meetings can be served, looked at every second.

use std::sync::Arc;
use std::time::Duration;

use lease::{Clock, Prefix, Query, Store};
use meet_mc::actor::{Controller, limits};
use meet_rpc::node::Standing;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use service::Readiness;
use tokio::sync::watch;

use super::vitals;

/// How often it is looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long the store may take for that.
const PATIENCE: Duration = Duration::from_secs(2);
/// With so much of its memory in use a controller says that it is better ended, in percent.
const MEMORY: u32 = 90;

/// What was last seen.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Seen {
    draining: bool,
    store: bool,
    /// How full it is, in percent.
    full: usize,
    degraded: bool,
    handlers: Option<usize>,
    standing: Option<Standing>,
}

impl Seen {
    /// Why nothing new should be sent here; none when it should.
    fn trouble(&self) -> Option<String> {
        match self {
            Self { draining: true, .. } => Some("the meeting controller is draining".to_owned()),
            Self { store: false, .. } => Some("the store of meetings does not answer".to_owned()),
            Self { full, .. } if *full >= limits::FULL => {
                Some(format!("the meeting controller is full ({full} %)"))
            }
            Self { handlers: Some(0), .. } => Some("there is no media handler".to_owned()),
            _ => None,
        }
    }

    fn facts(&self) -> Map<String, Value> {
        let registered = self.standing.map(|standing| standing == Standing::Registered);
        let state = if self.degraded { "degraded" } else { "healthy" };
        let facts = [
            ("state".to_owned(), json!(state)),
            ("capacity_percent".to_owned(), json!(self.full)),
            ("media_handlers".to_owned(), json!(self.handlers)),
            ("registered".to_owned(), json!(registered)),
        ];
        facts.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }
}

/// The condition of meetings in this process.
#[derive(Clone)]
pub(super) struct Condition {
    seen: Arc<Mutex<Seen>>,
    controller: Option<Controller>,
    standing: Option<watch::Receiver<Standing>>,
    store: Arc<dyn Store>,
}

impl Condition {
    pub(super) fn new(
        store: Arc<dyn Store>,
        controller: Option<Controller>,
        standing: Option<watch::Receiver<Standing>>,
    ) -> Self {
        let seen =
            Seen { draining: false, store: true, full: 0, degraded: false, handlers: None, standing: None };
        Self { seen: Arc::new(Mutex::new(seen)), controller, standing, store }
    }

    /// Looks, for ever.
    pub(super) async fn watch(&self) {
        let clock = self.store.clock();
        loop {
            self.look(&*clock).await;
            clock.sleep_until(clock.now() + LOOK).await;
        }
    }

    async fn look(&self, clock: &dyn Clock) {
        let standing = self.standing.as_ref().map(|standing| *standing.borrow());
        let mut seen = Seen { standing, ..self.seen.lock().clone() };
        let answer = tokio::select! {
            answer = self.handlers() => answer,
            () = clock.sleep_until(clock.now() + PATIENCE) => None,
        };
        seen.store = answer.is_some();
        seen.handlers = answer.or(seen.handlers);
        if let Some(controller) = &self.controller {
            seen.draining = controller.is_draining();
            seen.store &= controller.store_is_there();
            seen.full = controller.counts().await.percent_of(controller.most());
            seen.degraded = controller.is_degraded().await;
        }
        metrics(&seen);
        *self.seen.lock() = seen;
    }

    /// How many media handlers hold their place; none if the store does not say.
    async fn handlers(&self) -> Option<usize> {
        let query = Query::new(Prefix::new("mh:").ok()?);
        let page = self.store.list(&query).await.ok()?;
        Some(page.items.iter().filter(|status| status.phase == lease::Phase::Held).count())
    }

    /// Ready as the rules of a meeting controller say.
    pub(super) fn readiness(&self) -> Readiness {
        let mut seen = self.seen.lock().clone();
        // What this process knows for itself is not a second old.
        if let Some(controller) = &self.controller {
            seen.draining = controller.is_draining();
            seen.store &= controller.store_is_there();
        }
        seen.trouble().map_or_else(|| Readiness::Ready(seen.facts()), Readiness::NotReady)
    }

    /// What the page for all services says of meetings.
    pub(super) fn facts(&self) -> Value {
        let seen = self.seen.lock().clone();
        let mut facts = seen.facts();
        if let Some(why) = seen.trouble() {
            facts.insert("state".to_owned(), json!("not_ready"));
            facts.insert("why".to_owned(), json!(why));
        }
        Value::Object(facts)
    }
}

fn metrics(seen: &Seen) {
    metrics::gauge!("mc_capacity_percent").set(seen.full as f64);
    metrics::gauge!("mc_degraded").set(f64::from(u8::from(seen.degraded)));
    metrics::gauge!("mc_draining").set(f64::from(u8::from(seen.draining)));
    metrics::gauge!("mc_media_handlers").set(seen.handlers.unwrap_or_default() as f64);
    metrics::gauge!("mc_memory_percent").set(f64::from(vitals::memory().unwrap_or_default()));
}

/// Whether the process should go on, as the rules of a meeting controller say.
pub(super) fn alive() -> Result<(), String> {
    match vitals::memory() {
        Some(percent) if percent >= MEMORY => Err(format!("{percent} % of the memory is in use")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        let standing = Some(Standing::Registered);
        Seen { draining: false, store: true, full: 0, degraded: false, handlers: Some(1), standing }
    }

    #[test]
    fn it_is_not_ready_without_a_store_when_it_drains_is_full_or_has_no_handler() {
        assert_eq!(seen().trouble(), None);
        assert_eq!(Seen { full: 94, degraded: true, ..seen() }.trouble(), None, "degraded still serves");
        for (trouble, words) in [
            (Seen { store: false, ..seen() }, "store"),
            (Seen { draining: true, ..seen() }, "draining"),
            (Seen { full: 95, ..seen() }, "full (95 %)"),
            (Seen { handlers: Some(0), ..seen() }, "no media handler"),
        ] {
            assert!(trouble.trouble().is_some_and(|why| why.contains(words)), "{words}");
        }
        assert_eq!(Seen { full: 80, degraded: true, ..seen() }.facts()["state"], "degraded");
    }
}
