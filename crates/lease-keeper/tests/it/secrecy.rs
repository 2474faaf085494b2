//! Tokens stay secret.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use parking_lot::Mutex;
use tenure_keeper::{Gate, Handoff};
use tenure_lease::Mode;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use crate::faults::Kind;
use crate::fixture::{Fixture, TTL, holder, key, ms, terms};

/// Records every event, and the fields of every span.
#[derive(Clone, Default)]
struct Scribe(Arc<Mutex<String>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{}={value:?} ", field.name()).unwrap();
    }
}

impl Subscriber for Scribe {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut text = self.0.lock();
        write!(text, "span {} ", span.metadata().name()).unwrap();
        span.record(&mut Line(&mut text));
        text.push('\n');
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut text = self.0.lock();
        values.record(&mut Line(&mut text));
        text.push('\n');
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = self.0.lock();
        write!(text, "{} ", event.metadata().target()).unwrap();
        event.record(&mut Line(&mut text));
        text.push('\n');
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_scribe_reads_events_spans_and_what_is_recorded_later() {
    let _second = tracing::Dispatch::new(Scribe::default());
    let scribe = Scribe::default();
    tracing::subscriber::with_default(scribe.clone(), || {
        let span = tracing::info_span!("work", first = "one", later = tracing::field::Empty);
        span.record("later", "two");
        let _entered = span.enter();
        tracing::info!(third = "three", "said");
    });
    let log = scribe.0.lock().clone();
    for word in ["one", "two", "three", "said"] {
        assert!(log.contains(word), "{word} is not in {log}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_log_event_and_no_debug_output_contains_a_token() {
    // With a single subscriber, a callsite that another test's thread meets first would be switched off for
    // this thread too: tracing then asks that thread alone. A second subscriber makes it ask all.
    let _second = tracing::Dispatch::new(Scribe::default());
    let scribe = Scribe::default();
    let _default = tracing::subscriber::set_default(scribe.clone());
    let fixture = Fixture::new();
    let guard = fixture.take("k", terms()).await;
    let permit = guard.permit(ms(0)).unwrap();
    let fence = permit.fence(Mode::Strict);
    let token = fence.token.reveal().to_owned();
    let mut shown = format!("{guard:?} {permit:?} {fence:?} {:?} {:?}", guard.share(), fixture.keeper);
    drop(permit);

    let gate = Gate::open_with(&fixture.keeper, key("gate"), terms(), |_| ()).await.unwrap();
    let secret = gate.proof().unwrap().token.reveal().to_owned();
    write!(shown, "{gate:?} {:?}", gate.proof().unwrap()).unwrap();

    fixture.store.faults.inject_for("renew", "k", Kind::CutReply, 10);
    fixture.pass(TTL).await;
    fixture.store.faults.heal();
    fixture.pass(TTL).await;
    fixture.store.faults.inject_for("release", "k", Kind::CutReply, 1);
    write!(shown, "{:?}", Handoff::new(guard, holder("h"))).unwrap();
    gate.close().await.unwrap();
    fixture.keeper.settled().await;

    let log = scribe.0.lock().clone();
    for word in ["acquired", "renewed", "jeopardy", "suspended", "released", "reaped"] {
        assert!(log.contains(word), "{word} is not in the log:\n{log}");
    }
    assert!(log.lines().any(|line| line.starts_with("tenure::ownership") && line.contains("generation=")));
    for secret in [token, secret] {
        assert!(!log.contains(&secret), "{log}");
        assert!(!shown.contains(&secret), "{shown}");
    }
}
