//! Metrics of a handler.

/// The log target.
pub(crate) const TARGET: &str = "tenure::meet";

/// The number of registered meetings.
pub(crate) fn meetings(count: usize) {
    metrics::gauge!("mh_meetings_active").set(count as f64);
}

/// The number of streams.
pub(crate) fn streams(count: u32) {
    metrics::gauge!("mh_streams_active").set(f64::from(count));
}

/// The outcome of a session request.
pub(crate) fn connected(status: &'static str) {
    metrics::counter!("mh_webtransport_connections_total", "status" => status).increment(1);
}

/// The outcome of a registration.
pub(crate) fn registered(status: &'static str) {
    metrics::counter!("mh_register_meeting_total", "status" => status).increment(1);
}

/// The outcome of a mute order.
pub(crate) fn enforced(status: &'static str) {
    metrics::counter!("mh_enforce_mute_total", "status" => status).increment(1);
}
