//! What all people sent and received.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;

use crate::cli::{Result, Screen, human};

/// Counts since the start.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) frames_sent: AtomicU64,
    pub(super) frames_dropped: AtomicU64,
    pub(super) packets_sent: AtomicU64,
    pub(super) frames_received: AtomicU64,
    pub(super) packets_received: AtomicU64,
    pub(super) packets_lost: AtomicU64,
}

/// Adds to a count.
pub(super) fn add(count: &AtomicU64, number: u64) {
    count.fetch_add(number, Ordering::Relaxed);
}

impl Counts {
    /// Prints one line.
    pub(super) fn print(&self, people: usize, time: Duration, screen: &Screen) -> Result {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let (frames, packets) = (read(&self.frames_sent), read(&self.packets_sent));
        let (dropped, lost) = (read(&self.frames_dropped), read(&self.packets_lost));
        let (seen, heard) = (read(&self.frames_received), read(&self.packets_received));
        if screen.is_json() {
            return screen.json(&json!({
                "seconds": time.as_secs(),
                "people": people,
                "sent": { "frames": frames, "dropped": dropped, "packets": packets },
                "received": { "frames": seen, "packets": heard, "lost": lost },
            }));
        }
        let time = human::format_duration(Duration::from_secs(time.as_secs()));
        let mut line = format!(
            "{time:>6}  people {people}  sent {frames} frames ({dropped} dropped), {packets} packets"
        );
        if seen + heard > 0 {
            line.push_str(&format!("  received {seen} frames, {heard} packets ({lost} lost)"));
        }
        screen.line(line)
    }
}
