//! What the kernel writes for people, kept to be searched for tokens.

use std::cell::RefCell;
use std::fmt::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what this thread logs while it listens.
struct Ear;

/// Puts the ear on all threads of this process. Again does nothing.
pub fn install() {
    // Another subscriber was there first: then nothing is heard, and nothing is claimed of what was not heard.
    drop(tracing::subscriber::set_global_default(Ear));
}

/// Listens on this thread from now on.
pub(crate) fn listen() {
    LINES.with_borrow_mut(|lines| *lines = Some(String::new()));
}

/// Stops listening and answers what was heard.
pub(crate) fn take() -> String {
    LINES.with_borrow_mut(Option::take).unwrap_or_default()
}

impl Subscriber for Ear {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        LINES.with_borrow(Option::is_some)
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                event.record(&mut Line(lines));
                lines.push('\n');
            }
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }
}

struct Line<'l>(&'l mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}
