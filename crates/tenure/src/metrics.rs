//! The metrics that Tenure records: what `/metrics` shows as HELP and TYPE.
//!
//! Crates record metrics where they happen. This is the one list of them; `cargo xtask tidy` holds that it and
//! docs/observability.md are complete.

use Kind::{Counter, Gauge, Histogram};

/// What a metric measures.
#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Describes all metrics to the recorder and sets those that never change.
pub(crate) fn describe() {
    for (kind, name, help) in CATALOG {
        match kind {
            Counter => metrics::describe_counter!(*name, *help),
            Gauge => metrics::describe_gauge!(*name, *help),
            Histogram => metrics::describe_histogram!(*name, *help),
        }
    }
    metrics::gauge!("tenure_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
}

/// Every metric: kind, name, HELP text.
const CATALOG: &[(Kind, &str, &str)] = &[
    (Gauge, "tenure_lease_held", "Leases that this process holds now."),
    (
        Counter,
        "tenure_lease_acquire_total",
        "Claims by result: granted, busy, failed (did not happen), unknown (may have happened).",
    ),
    (
        Histogram,
        "tenure_lease_acquire_seconds",
        "Time from a claim to its result, including time in the queue.",
    ),
    (Counter, "tenure_lease_renew_total", "Renewals per lease: renewed, lost, failed, unknown."),
    (
        Histogram,
        "tenure_lease_permit_margin_seconds",
        "Time left before the deadline when a permit was granted. Near zero the TTL is too short.",
    ),
    (
        Counter,
        "tenure_lease_jeopardy_total",
        "Leases whose renewal failed or is overdue, before the deadline.",
    ),
    (
        Counter,
        "tenure_lease_suspended_total",
        "Leases whose deadline passed without a response: no exclusive action until the outcome is known.",
    ),
    (Histogram, "tenure_lease_suspended_seconds", "How long leases stayed suspended."),
    (
        Counter,
        "tenure_lease_lost_total",
        "Leases lost without a release. The runbook TenureLeaseLost explains the reasons.",
    ),
    (Counter, "tenure_lease_release_total", "Releases: released, not_held, failed, unknown."),
    (
        Counter,
        "tenure_lease_reaped_total",
        "Leases released on behalf of a dropped guard: released, not_held, refused, expired (gave up), dropped (no room).",
    ),
    (
        Histogram,
        "tenure_lease_handover_seconds",
        "Duration of a planned move from one holder to the next: transferred, released.",
    ),
    (Gauge, "tenure_lease_slots_in_use", "Slots that this process holds."),
    (Gauge, "tenure_lease_slots_offered", "Slots that exist."),
    (
        Counter,
        "tenure_lease_missed_wakeups_total",
        "Times a timer found a change that an event should have announced.",
    ),
    (
        Counter,
        "tenure_store_ops_total",
        "Store calls. unavailable did not happen, unknown may have, refused was invalid. Acquires: granted or what blocked them (held, queued, delayed, reserved, quarantine, foreign, not_that_generation).",
    ),
    (
        Histogram,
        "tenure_store_op_seconds",
        "Duration of a store call. Acquires that may wait have the verb acquire_waiting.",
    ),
    (Counter, "tenure_store_renewals_total", "Leases in renewal batches: renewed, lost, failed."),
    (
        Counter,
        "tenure_lease_fenced_out_total",
        "Writes of former owners that were refused. tenure doctor causes one on purpose.",
    ),
    (Counter, "tenure_lease_wiped_total", "Leases removed by the owner of a gate."),
    (
        Counter,
        "tenure_lease_duplicate_generation_total",
        "Two writers with one generation. Must stay zero (embedded and memory).",
    ),
    (
        Histogram,
        "tenure_lease_expiry_lag_seconds",
        "Delay between an expiry and its detection (embedded and memory).",
    ),
    (
        Histogram,
        "tenure_store_sync_seconds",
        "Duration of a journal write with its sync. Every grant waits for one (embedded).",
    ),
    (
        Gauge,
        "tenure_store_journal_room_bytes",
        "Free space in the journal. Changes are refused at zero (embedded).",
    ),
    (
        Gauge,
        "tenure_store_failed",
        "1 when the journal failed; nothing is granted until a restart (embedded).",
    ),
    (
        Counter,
        "tenure_store_redis_orphans_lost_total",
        "Abandoned claims that could not be released; they end with their TTL (Redis).",
    ),
    (
        Counter,
        "tenure_store_redis_underreplicated_total",
        "Changes not confirmed by as many replicas as wait_replicas requires (Redis).",
    ),
    (
        Counter,
        "tenure_http_requests_total",
        "Requests, counted when the response is complete or aborted. gRPC has status 200 also for errors.",
    ),
    (
        Histogram,
        "tenure_http_request_seconds",
        "Time to the end of the response. A watch lasts as long as it is open.",
    ),
    (Gauge, "tenure_http_connections", "Open connections."),
    (Counter, "tenure_http_connections_refused_total", "Connections over limits.max_connections."),
    (Counter, "tenure_http_panics_total", "Requests whose handler panicked: a bug."),
    (Gauge, "tenure_build_info", "Always 1; the label is the version."),
    (Gauge, "tenure_control_serving", "1 while this process serves the device."),
    (Gauge, "tenure_control_lease_active", "1 while a client holds the control lease."),
    (
        Counter,
        "tenure_control_lease_events_total",
        "Events of the control lease: acquired, heartbeat, released, expired, rejected_locked.",
    ),
    (Gauge, "tenure_control_clients", "Open WebSockets."),
    (
        Counter,
        "tenure_control_commands_total",
        "Commands from ws, rest, serial, encoder: ok or the error code.",
    ),
    (Counter, "tenure_control_blocked_total", "Commands that the control lease blocked."),
    (
        Counter,
        "tenure_control_invalid_tokens_total",
        "Invalid lease tokens. Ten in a minute throttle the client.",
    ),
    (Counter, "tenure_control_slow_clients_total", "Connections dropped because the client did not read."),
    (Counter, "tenure_control_frames_total", "Streamed frames: taken, invalid, blocked."),
    (Gauge, "tenure_control_frames_per_second", "Frames rendered in the last second."),
    (Counter, "tenure_control_late_frames_total", "Frames more than one frame time late."),
    (Counter, "tenure_control_ddp_packets_total", "DDP packets: sent, lost before sending."),
    (Gauge, "tenure_poll_targets", "Valid targets that this node knows."),
    (Gauge, "tenure_poll_targets_paused", "Paused targets."),
    (Gauge, "tenure_poll_targets_invalid", "Targets with an invalid record; the log has the reason."),
    (Gauge, "tenure_poll_targets_owned", "Targets that this node polls."),
    (Gauge, "tenure_poll_nodes", "Live nodes, as this node sees them."),
    (
        Counter,
        "tenure_poll_lease_events_total",
        "acquired, acquire_failed, renewed, renew_failed, uncertain, certain, released, expired, taken_over.",
    ),
    (
        Counter,
        "tenure_poll_requests_total",
        "Polls: ok, not_modified, refused (error status), unreadable, timeout, too_large, redirect, failed, probe, probe_failed.",
    ),
    (Histogram, "tenure_poll_request_seconds", "Time from a request to the end of its body."),
    (Counter, "tenure_poll_skipped_total", "Polls that were due but skipped because the lease was in doubt."),
    (
        Counter,
        "tenure_poll_results_total",
        "Results: published, refused (from a former owner), failed, dropped.",
    ),
    (Counter, "tenure_auth_failures_total", "Invalid credentials, by kind: login, bearer."),
    (
        Counter,
        "tenure_poll_webhook_calls_total",
        "Webhook calls: called, failed after three attempts, dropped (queue full), denied (address).",
    ),
    (
        Counter,
        "tenure_poll_discovery_errors_total",
        "Failed reads of the store during discovery; the previous state is kept.",
    ),
    (
        Counter,
        "xg2g_v3_intents_total",
        "Authenticated, valid intents. mode is phase1 or phase2 for starts and any for stops. Outcomes: protocol.",
    ),
    (Counter, "xg2g_v3_idempotent_replay_total", "Intents that matched an existing session."),
    (Counter, "xg2g_v3_bus_publish_total", "Published events: ok, error."),
    (Gauge, "xg2g_tuners_in_use", "Tuners held by live leases of active sessions."),
    (Gauge, "xg2g_v3_sessions_active", "Active sessions."),
    (
        Counter,
        "xg2g_invariant_violation_total",
        "Sessions that contradict their leases: two on one tuner, or one without its lease.",
    ),
    (Counter, "xg2g_v3_tuner_busy_total", "Sessions rejected because all tuners are in use."),
    (Counter, "xg2g_v3_capacity_rejections_total", "Rejected sessions: REJECTED_BUSY, REJECTED_NO_TUNER."),
    (Counter, "xg2g_v3_session_starts_total", "Sessions that became ready or failed before."),
    (Counter, "xg2g_v3_session_end_total", "Ended sessions."),
    (
        Histogram,
        "xg2g_v3_time_to_first_playlist_seconds",
        "Time from the start of the pipeline to the first segment.",
    ),
    (Counter, "xg2g_sessions_lease_expired_total", "Sessions that ended because no client watched them."),
    (Counter, "v3_fsm_transitions_total", "State transitions of sessions."),
    (Counter, "v3_worker_lease_lost_total", "Session leases lost."),
    (Gauge, "mc_connections_active", "Client connections."),
    (Gauge, "mc_meetings_active", "Meetings that this controller owns."),
    (
        Counter,
        "mc_session_joins_total",
        "Joins: ok, refused, unauthorized, not_found, rate_limited, unavailable.",
    ),
    (
        Histogram,
        "mc_session_join_duration_seconds",
        "Time from a join request to its response, including the write.",
    ),
    (Counter, "mc_session_join_failures_total", "Failed joins by error."),
    (
        Counter,
        "mc_session_resumes_total",
        "Joins with a binding token: resumed, or new_seat when the token was not accepted.",
    ),
    (Histogram, "mc_recovery_duration_seconds", "Time that resumed participants were disconnected."),
    (
        Counter,
        "mc_webtransport_connections_total",
        "WebTransport sessions: accepted, rejected (capacity), draining, failed.",
    ),
    (
        Histogram,
        "mc_message_latency_seconds",
        "Time a meeting took for a request, a timer or a lost connection, including the write.",
    ),
    (Counter, "mc_messages_dropped_total", "Messages that found a full or closed mailbox."),
    (
        Gauge,
        "mc_actor_mailbox_depth",
        "The most messages in one mailbox within the last second: controller, meeting, connection.",
    ),
    (Counter, "mc_actor_panic_total", "Panics: each is a bug."),
    (Histogram, "mc_redis_latency_seconds", "Duration of a store call, timeouts included."),
    (
        Counter,
        "mc_fenced_out_total",
        "Writes refused, or not sent because the lease had ended: stale_generation, concurrent_write.",
    ),
    (Counter, "mc_rows_skipped_total", "Stored rows of meetings that this version cannot read."),
    (Gauge, "mc_store_breaker_open", "1 while store calls are suspended because the store does not answer."),
    (
        Counter,
        "mc_assignments_total",
        "Assignments: accepted, at_capacity, draining, unhealthy, already_owned, invalid_request.",
    ),
    (Counter, "mc_migrations_total", "Moves to another controller: completed, aborted, failed."),
    (Histogram, "mc_migration_freeze_seconds", "How long a meeting that moved accepted no changes."),
    (
        Counter,
        "mc_register_meeting_total",
        "Registrations of a meeting at a media handler: success, refused, stale, error after three attempts.",
    ),
    (Histogram, "mc_register_meeting_duration_seconds", "Duration of a registration, retries included."),
    (
        Counter,
        "mc_mh_notifications_received_total",
        "Notifications from media handlers: connected, disconnected, load.",
    ),
    (
        Counter,
        "mc_gc_heartbeats_total",
        "Calls to the global controller: register, fast, comprehensive; registered, success, not_found, error, failed.",
    ),
    (Histogram, "mc_gc_heartbeat_latency_seconds", "Duration of these calls."),
    (Gauge, "mc_capacity_ratio", "Use of the meeting or participant limit, whichever is higher."),
    (Gauge, "mc_degraded", "1 when slow (p99 over 100 ms in the last minute) or 80 % full."),
    (Gauge, "mc_draining", "1 while draining."),
    (Gauge, "mc_media_handlers", "Registered media handlers."),
    (Gauge, "mc_memory_ratio", "Memory in use, of what this process may use."),
    (
        Counter,
        "mc_jwt_validations_total",
        "Tokens presented by other roles: success or failure with its reason.",
    ),
    (Counter, "mc_caller_type_rejected_total", "Calls with a valid token of the wrong role."),
    (
        Counter,
        "mc_token_refresh_total",
        "Requests for its own service tokens: success, refused, unavailable.",
    ),
    (Gauge, "mh_meetings_active", "Meetings registered at this media handler."),
    (Gauge, "mh_streams_active", "Publications and subscriptions that flow."),
    (Gauge, "mh_sessions_active", "Sessions of participants."),
    (Gauge, "mh_publications_active", "Published streams: audio, video, screen."),
    (Gauge, "mh_subscriptions_active", "Subscriptions that flow: audio, video, screen."),
    (Counter, "mh_ingress_bytes_total", "Bytes of media received."),
    (Counter, "mh_egress_bytes_total", "Bytes of media handed to the transport."),
    (
        Counter,
        "mh_frames_forwarded_total",
        "Frames and audio packets handed to the transport, per subscriber.",
    ),
    (Counter, "mh_frames_dropped_total", "Groups cut short, by the reason of the reset or of the refusal."),
    (Counter, "mh_datagrams_dropped_total", "Audio packets not forwarded, by reason."),
    (
        Histogram,
        "mh_forward_latency_seconds",
        "From the first byte of a group to its hand-over to the transport.",
    ),
    (Counter, "mh_keyframe_requests_total", "Key frames requested from publishers."),
    (Histogram, "mh_mute_enforce_seconds", "Duration of a mute, until nothing more is forwarded."),
    (Gauge, "mh_queue_bytes", "Bytes that subscribers have not taken yet."),
    (Gauge, "mh_cache_bytes", "Bytes of groups in memory."),
    (Gauge, "mh_relay_tracks_active", "Streams that come from other handlers of their meeting."),
    (
        Counter,
        "mh_relay_connections_total",
        "Connections with other handlers: connected, failed, accepted, rejected.",
    ),
    (Counter, "mh_webtransport_connections_total", "WebTransport sessions: accepted, rejected."),
    (
        Counter,
        "mh_register_meeting_total",
        "Registrations: accepted, at_capacity, draining, stale_generation, refused.",
    ),
    (Counter, "mh_enforce_mute_total", "Mutes: enforced, or the reason for refusal."),
    (Counter, "mh_gc_heartbeats_total", "Calls to the global controller."),
    (Histogram, "mh_gc_heartbeat_latency_seconds", "Duration of these calls."),
    (
        Counter,
        "mh_jwt_validations_total",
        "Tokens presented by other roles: success or failure with its reason.",
    ),
    (Counter, "mh_caller_type_rejected_total", "Calls with a valid token of the wrong role."),
    (
        Counter,
        "mh_token_refresh_total",
        "Requests for its own service tokens: success, refused, unavailable.",
    ),
    (Counter, "gc_joins_total", "Joins: success or the error code."),
    (Counter, "gc_meetings_created_total", "Meetings created."),
    (Counter, "gc_guest_tokens_total", "Guest tokens: success or the error code."),
    (
        Counter,
        "gc_assignments_total",
        "Assignments: accepted, already_owned, rejected (by all candidates), no_controller, no_handler, no_answer.",
    ),
    (
        Counter,
        "gc_assignment_rejections_total",
        "Rejections by controllers: at_capacity, draining, unhealthy, already_owned, invalid_request, unspecified.",
    ),
    (Counter, "gc_degraded_placements_total", "Meetings with one media handler, or all of them in one zone."),
    (Gauge, "gc_registered_nodes", "Nodes that hold their lease: mc, mh."),
    (
        Counter,
        "gc_unreachable_reports_total",
        "Reports of users that cannot reach their controller, at most one per user, generation and ten seconds.",
    ),
    (Counter, "gc_mc_probes_total", "Probes of reported controllers: alive, lost_meeting, dead."),
    (
        Counter,
        "gc_failovers_total",
        "Decisions that take a meeting from its controller: taken_over, failed, moved, not_moved, suppressed.",
    ),
    (Counter, "gc_meetings_swept_total", "Meetings closed or forgotten."),
    (
        Counter,
        "gc_jwt_validations_total",
        "Tokens presented by other roles: success or failure with its reason.",
    ),
    (Counter, "gc_caller_type_rejected_total", "Calls with a valid token of the wrong role."),
    (
        Counter,
        "gc_token_refresh_total",
        "Requests for its own service tokens: success, refused, unavailable.",
    ),
];
