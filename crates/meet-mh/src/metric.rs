//! Metrics of a handler.

use std::time::Duration;

use crate::media::Counts;

/// The log target.
pub(crate) const TARGET: &str = "tenure::meet";

/// The number of registered meetings.
pub(crate) fn meetings(count: usize) {
    metrics::gauge!("mh_meetings_active").set(count as f64);
}

/// The number of streams that flow.
pub(crate) fn streams(count: u32) {
    metrics::gauge!("mh_streams_active").set(f64::from(count));
}

/// The outcome of a session request.
pub(crate) fn connected(status: &'static str) {
    metrics::counter!("mh_webtransport_connections_total", "status" => status).increment(1);
}

/// The outcome of a connection with another handler.
pub(crate) fn relay_connected(status: &'static str) {
    metrics::counter!("mh_relay_connections_total", "status" => status).increment(1);
}

/// The outcome of a registration.
pub(crate) fn registered(status: &'static str) {
    metrics::counter!("mh_register_meeting_total", "status" => status).increment(1);
}

/// The outcome of a mute and how long it took.
pub(crate) fn enforced(status: &'static str, took: Duration) {
    metrics::counter!("mh_enforce_mute_total", "status" => status).increment(1);
    metrics::histogram!("mh_mute_enforce_seconds").record(took.as_secs_f64());
}

/// Replaces the counts of a meeting in the sums of the handler.
pub(crate) fn counts(before: &Counts, now: &Counts) {
    let standby = ["false", "true"];
    for ((standby, now), before) in standby.into_iter().zip(now.sessions).zip(before.sessions) {
        metrics::gauge!("mh_sessions_active", "standby" => standby).increment((now - before) as f64);
    }
    let kinds = ["audio", "video", "screen"];
    for ((kind, now), before) in kinds.into_iter().zip(now.publications).zip(before.publications) {
        metrics::gauge!("mh_publications_active", "type" => kind).increment((now - before) as f64);
    }
    for ((kind, now), before) in kinds.into_iter().zip(now.subscriptions).zip(before.subscriptions) {
        metrics::gauge!("mh_subscriptions_active", "type" => kind).increment((now - before) as f64);
    }
    metrics::gauge!("mh_queue_bytes").increment((now.queued - before.queued) as f64);
    metrics::gauge!("mh_relay_tracks_active").increment((now.relayed - before.relayed) as f64);
}

/// Bytes received and sent since the start, and bytes that are cached.
pub(crate) fn bytes((ingress, egress): (u64, u64), cached: usize) {
    metrics::counter!("mh_ingress_bytes_total").absolute(ingress);
    metrics::counter!("mh_egress_bytes_total").absolute(egress);
    metrics::gauge!("mh_cache_bytes").set(cached as f64);
}

/// A frame was forwarded to a subscriber.
pub(crate) fn frame_forwarded(kind: &'static str) {
    frames_forwarded(kind, 1);
}

/// Frames or packets were forwarded.
pub(crate) fn frames_forwarded(kind: &'static str, count: u64) {
    metrics::counter!("mh_frames_forwarded_total", "type" => kind).increment(count);
}

/// Frames of a group were not forwarded.
pub(crate) fn frame_dropped(reason: &'static str) {
    metrics::counter!("mh_frames_dropped_total", "reason" => reason).increment(1);
}

/// A datagram was not forwarded.
pub(crate) fn datagram_dropped(reason: &'static str) {
    metrics::counter!("mh_datagrams_dropped_total", "reason" => reason).increment(1);
}

/// From the first byte of a group to its hand-over to the transport.
pub(crate) fn forward_latency(took: Duration) {
    metrics::histogram!("mh_forward_latency_seconds").record(took.as_secs_f64());
}

/// A key frame was requested from a publisher.
pub(crate) fn keyframe_request() {
    metrics::counter!("mh_keyframe_requests_total").increment(1);
}
