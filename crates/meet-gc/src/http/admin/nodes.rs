//! Nodes with their load, drains, and the last moves.

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tenure_meet_rpc::Kind;
use tenure_meet_rpc::history::{DrainProgress, DrainState, MoveEntry, MoveKind, MoveReason, MoveResult};
use tenure_meet_wire::internal::HealthStatus;
use tenure_service::{Json, Problem};
use utoipa::ToSchema;

use super::Operator;
use crate::error::ApiError;
use crate::gc::GcState;
use crate::registry::Node;

/// All live nodes.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingNodes")]
pub(super) struct NodeList {
    /// Meeting controllers, then media handlers, each by id.
    items: Vec<NodeBody>,
    /// Drains of the last day, also of controllers that have ended.
    drains: Vec<DrainBody>,
}

/// A meeting controller or media handler.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingNode")]
pub(super) struct NodeBody {
    id: String,
    /// `controller` or `handler`.
    kind: &'static str,
    region: String,
    zone: String,
    version: String,
    /// `pending`, `healthy`, `degraded`, `unhealthy` or `draining`.
    health: &'static str,
    /// The used share of its capacity, in percent.
    load_percent: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    meetings: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    participants: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    streams: Option<u32>,
    cpu_percent: f32,
    memory_percent: f32,
    /// Where clients connect.
    webtransport_endpoint: String,
}

/// The progress of a drain.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingDrain")]
pub(super) struct DrainBody {
    mc_id: String,
    /// `draining`, `drained` or `cancelled`.
    state: &'static str,
    reason: String,
    started_ms: u64,
    /// When the controller closes what is left.
    deadline_ms: u64,
    /// Meetings when it began.
    meetings: u32,
    migrated: u32,
    closed: u32,
    left: u32,
}

/// The last moves and failovers, the newest first.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingMoves")]
pub(super) struct MoveList {
    items: Vec<MoveBody>,
}

/// A finished move or failover.
#[derive(Serialize, ToSchema)]
#[schema(title = "MeetingMove")]
pub(super) struct MoveBody {
    meeting_id: String,
    /// `move` or `failover`.
    kind: &'static str,
    /// `drain`, `overload`, `unreachable`, `panic`, `operator` or `controller_lost`.
    reason: &'static str,
    /// `completed`, `aborted` or `failed`.
    result: &'static str,
    from_mc: String,
    to_mc: Option<String>,
    /// The generation afterwards.
    generation: String,
    started_ms: u64,
    duration_ms: u64,
    /// How long the meeting accepted no changes.
    freeze_ms: Option<u64>,
}

/// Lists meeting controllers and media handlers with their load, and drains.
#[utoipa::path(
    get, path = "/api/v1/admin/nodes", tag = "meetings", operation_id = "listMeetingNodes",
    responses((status = 200, body = NodeList))
)]
pub(super) async fn nodes(
    State(state): State<Arc<GcState>>,
    _operator: Operator,
) -> Result<Json<NodeList>, Problem> {
    let mut items = Vec::new();
    for kind in [Kind::Controller, Kind::Handler] {
        let nodes = state.nodes(kind).await.map_err(ApiError::from)?;
        items.extend(nodes.into_iter().map(|node| NodeBody::new(kind, node)));
    }
    let drains = state.drains().await?.into_iter().map(DrainBody::from).collect();
    Ok(Json(NodeList { items, drains }))
}

/// Lists the last 50 moves and failovers.
#[utoipa::path(
    get, path = "/api/v1/admin/moves", tag = "meetings", operation_id = "listMeetingMoves",
    responses((status = 200, body = MoveList))
)]
pub(super) async fn moves(
    State(state): State<Arc<GcState>>,
    _operator: Operator,
) -> Result<Json<MoveList>, Problem> {
    let entries = state.bounded(MoveEntry::read_all(&*state.options.store)).await.map_err(ApiError::from)?;
    Ok(Json(MoveList { items: entries.into_iter().map(MoveBody::from).collect() }))
}

impl NodeBody {
    fn new(kind: Kind, node: Node) -> Self {
        let controller = kind == Kind::Controller;
        let share = if controller { node.fill(0) } else { node.flow(0) };
        let only = |applies: bool, value: u32| applies.then_some(value);
        let load = node.load;
        Self {
            id: node.id,
            kind: if controller { "controller" } else { "handler" },
            region: node.node_info.region,
            zone: node.node_info.zone,
            version: node.node_info.version,
            health: match load.health() {
                HealthStatus::Pending => "pending",
                HealthStatus::Healthy => "healthy",
                HealthStatus::Degraded => "degraded",
                HealthStatus::Unhealthy => "unhealthy",
                HealthStatus::Draining => "draining",
            },
            load_percent: (share * 100.0).round() as u32,
            meetings: only(controller, load.meetings),
            participants: only(controller, load.participants),
            streams: only(!controller, load.streams),
            cpu_percent: load.cpu_percent,
            memory_percent: load.memory_percent,
            webtransport_endpoint: node.node_info.webtransport_endpoint,
        }
    }
}

impl From<DrainProgress> for DrainBody {
    fn from(drain: DrainProgress) -> Self {
        Self {
            left: drain.left(),
            state: match drain.state {
                DrainState::Draining => "draining",
                DrainState::Drained => "drained",
                DrainState::Cancelled => "cancelled",
            },
            mc_id: drain.mc_id,
            reason: drain.reason,
            started_ms: drain.started_ms,
            deadline_ms: drain.deadline_ms,
            meetings: drain.meetings,
            migrated: drain.migrated,
            closed: drain.closed,
        }
    }
}

impl From<MoveEntry> for MoveBody {
    fn from(entry: MoveEntry) -> Self {
        Self {
            meeting_id: entry.meeting_id,
            kind: match entry.kind {
                MoveKind::Move => "move",
                MoveKind::Failover => "failover",
            },
            reason: match entry.reason {
                MoveReason::Drain => "drain",
                MoveReason::Overload => "overload",
                MoveReason::Unreachable => "unreachable",
                MoveReason::Panic => "panic",
                MoveReason::Operator => "operator",
                MoveReason::ControllerLost => "controller_lost",
            },
            result: match entry.result {
                MoveResult::Completed => "completed",
                MoveResult::Aborted => "aborted",
                MoveResult::Failed => "failed",
            },
            from_mc: entry.from_mc,
            to_mc: entry.to_mc,
            generation: entry.generation.to_string(),
            started_ms: entry.started_ms,
            duration_ms: entry.duration_ms,
            freeze_ms: entry.freeze_ms,
        }
    }
}
