//! Captures what the kernel logs, so that it can be searched for tokens.

use std::cell::RefCell;
use std::fmt::Write as _;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

thread_local! {
    static LINES: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps what a thread logs while it captures.
struct LogCapture;

/// Installs the capture for all threads of this process. A second call does nothing.
pub fn install() {
    // Another subscriber was installed first: then nothing is captured, and nothing is concluded from that.
    drop(tracing::subscriber::set_global_default(LogCapture));
}

/// Captures on this thread from now on.
pub(crate) fn start_capture() {
    LINES.with_borrow_mut(|lines| *lines = Some(String::new()));
}

/// Stops capturing and returns what was logged.
pub(crate) fn take_captured() -> String {
    LINES.with_borrow_mut(Option::take).unwrap_or_default()
}

impl Subscriber for LogCapture {
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
                event.record(&mut FieldWriter(lines));
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

struct FieldWriter<'l>(&'l mut String);

impl Visit for FieldWriter<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}
