//! `GET /api/v3/channels`

use std::sync::Arc;

use axum::extract::State;
use serde::Serialize;
use service::Json;
use utoipa::ToSchema;

use crate::gate::Reader;
use crate::site::Site;

/// What can be watched, and how.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Channels")]
pub(crate) struct ChannelsBody {
    /// The channels of the settings, in their order.
    channels: Vec<ChannelBody>,
    /// The profiles, the default first.
    profiles: Vec<String>,
    /// What is used when nothing is asked for.
    default_profile: String,
    /// How many tuners there are: so many channels at once.
    tuners: usize,
}

/// A channel.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(title = "Channel", example = json!({"serviceRef": "1:0:1:445D:453:1:C00000:0:0:0:", "name": "News"}))]
pub(crate) struct ChannelBody {
    /// What to start.
    service_ref: String,
    /// What people call it.
    name: String,
    /// Where its picture is.
    #[serde(skip_serializing_if = "Option::is_none")]
    logo: Option<String>,
}

/// What can be watched, and how.
#[utoipa::path(
    get, path = "/api/v3/channels", tag = "sessions", operation_id = "channels",
    responses((status = 200, body = ChannelsBody))
)]
pub(crate) async fn channels(State(site): State<Arc<Site>>, _: Reader) -> Json<ChannelsBody> {
    let options = &site.options;
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
