//! `GET /api/v3/channels`

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use tenure_service::Json;
use utoipa::ToSchema;

use crate::extract::ReadAccess;
use crate::state::ApiState;

/// The available channels and profiles.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Channels")]
pub(crate) struct ChannelsBody {
    /// The configured channels, in order.
    channels: Vec<ChannelBody>,
    /// The profiles, the default first.
    profiles: Vec<String>,
    /// The profile of an intent that names none.
    default_profile: String,
    /// The number of tuners: how many channels can play at once.
    tuners: usize,
}

/// A channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Channel", example = json!({"serviceRef": "1:0:1:445D:453:1:C00000:0:0:0:", "name": "News"}))]
pub(crate) struct ChannelBody {
    /// The reference to send in an intent.
    service_ref: String,
    /// The display name.
    name: String,
    /// The URL of its logo.
    #[serde(skip_serializing_if = "Option::is_none")]
    logo: Option<String>,
}

/// The available channels and profiles.
#[utoipa::path(
    get, path = "/api/v3/channels", tag = "sessions", operation_id = "channels",
    responses((status = 200, body = ChannelsBody))
)]
pub(crate) async fn list_channels(State(api): State<Arc<ApiState>>, _: ReadAccess) -> Json<ChannelsBody> {
    let options = &api.options;
    let channels = options.channels.iter().map(|channel| ChannelBody {
        service_ref: channel.service_ref.as_str().to_owned(),
        name: channel.name.clone(),
        logo: channel.logo.clone(),
    });
    Json(ChannelsBody {
        channels: channels.collect(),
        profiles: options.profiles.names().iter().map(|name| name.as_str().to_owned()).collect(),
        default_profile: options.profiles.default_profile().as_str().to_owned(),
        tuners: options.slots,
    })
}
