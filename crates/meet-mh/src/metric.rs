//! What is counted.

/// The target of every line of a media handler.
pub(crate) const TARGET: &str = "tenure::meet";

/// So many meetings are registered.
pub(crate) fn meetings(count: usize) {
    metrics::gauge!("mh_meetings_active").set(count as f64);
}

/// So many streams are there.
pub(crate) fn streams(count: u32) {
    metrics::gauge!("mh_streams_active").set(f64::from(count));
}

/// A client asked for a session, with this outcome.
pub(crate) fn connected(status: &'static str) {
    metrics::counter!("mh_webtransport_connections_total", "status" => status).increment(1);
}

/// A controller registered a meeting, with this outcome.
pub(crate) fn registered(status: &'static str) {
    metrics::counter!("mh_register_meeting_total", "status" => status).increment(1);
}

/// A controller had a mute enforced, with this outcome.
pub(crate) fn enforced(status: &'static str) {
    metrics::counter!("mh_enforce_mute_total", "status" => status).increment(1);
}
