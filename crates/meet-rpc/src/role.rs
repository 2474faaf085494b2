//! The service roles of meetings.

use std::time::Duration;

use tenure_meet_wire::jwt::ServiceType;

/// A role that other roles call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ServiceRole {
    /// The global controller.
    Gc,
    /// A meeting controller.
    Mc,
    /// A media handler.
    Mh,
}

impl ServiceRole {
    /// The scope that its callers need.
    pub const fn scope(self) -> &'static str {
        match self {
            Self::Gc => "service.write.gc",
            Self::Mc => "service.write.mc",
            Self::Mh => "service.write.mh",
        }
    }

    /// The service type in its own tokens.
    pub const fn service_type(self) -> ServiceType {
        match self {
            Self::Gc => ServiceType::GlobalController,
            Self::Mc => ServiceType::MeetingController,
            Self::Mh => ServiceType::MediaHandler,
        }
    }

    /// Counts a registration or report to GC.
    pub(crate) fn heartbeat(self, status: &'static str, kind: &'static str) {
        match self {
            Self::Mh => {
                metrics::counter!("mh_gc_heartbeats_total", "status" => status, "heartbeat_type" => kind)
            }
            _ => metrics::counter!("mc_gc_heartbeats_total", "status" => status, "heartbeat_type" => kind),
        }
        .increment(1);
    }

    /// Records the latency of a report to GC.
    pub(crate) fn heartbeat_took(self, kind: &'static str, took: Duration) {
        match self {
            Self::Mh => metrics::histogram!("mh_gc_heartbeat_latency_seconds", "heartbeat_type" => kind),
            _ => metrics::histogram!("mc_gc_heartbeat_latency_seconds", "heartbeat_type" => kind),
        }
        .record(took.as_secs_f64());
    }

    /// Counts a token validation.
    pub(crate) fn validated(self, result: &'static str, reason: &'static str) {
        let labels = [("result", result), ("token_type", "service"), ("failure_reason", reason)];
        match self {
            Self::Gc => metrics::counter!("gc_jwt_validations_total", &labels).increment(1),
            Self::Mc => metrics::counter!("mc_jwt_validations_total", &labels).increment(1),
            Self::Mh => metrics::counter!("mh_jwt_validations_total", &labels).increment(1),
        }
    }

    /// Counts a call from a service type that may not call the service.
    pub(crate) fn wrong_caller(self, service: &'static str, expected: ServiceType, actual: ServiceType) {
        let labels = [
            ("grpc_service", service),
            ("expected_type", expected.as_str()),
            ("actual_type", actual.as_str()),
        ];
        match self {
            Self::Gc => metrics::counter!("gc_caller_type_rejected_total", &labels).increment(1),
            Self::Mc => metrics::counter!("mc_caller_type_rejected_total", &labels).increment(1),
            Self::Mh => metrics::counter!("mh_caller_type_rejected_total", &labels).increment(1),
        }
    }

    /// Counts a refresh of the role's own token.
    pub(crate) fn refreshed(self, status: &'static str) {
        match self {
            Self::Gc => metrics::counter!("gc_token_refresh_total", "status" => status).increment(1),
            Self::Mc => metrics::counter!("mc_token_refresh_total", "status" => status).increment(1),
            Self::Mh => metrics::counter!("mh_token_refresh_total", "status" => status).increment(1),
        }
    }
}
