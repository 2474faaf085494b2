//! Guests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use axum::Json;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use http::HeaderMap;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::join::{closed, no_guests};
use super::{Body, checked_name};
use crate::gc::Site;
use crate::trouble::Trouble;
use crate::who::bearer;
use crate::{Invitation, limits, metric};

/// Somebody without an account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "NewGuest", example = json!({ "display_name": "Ada" }))]
pub(super) struct NewGuest {
    #[schema(min_length = 2, max_length = 100)]
    display_name: String,
}

/// A guest.
#[derive(Serialize, ToSchema)]
#[schema(title = "Guest")]
pub(super) struct GuestBody {
    /// To join with; it is also the token of the seat.
    token: String,
    /// Seconds.
    expires_in: u64,
    meeting_id: String,
    display_name: String,
}

/// A request whose address has not made too many guests.
pub(super) struct Admitted;

impl FromRequestParts<Arc<Site>> for Admitted {
    type Rejection = Trouble;

    async fn from_request_parts(parts: &mut Parts, site: &Arc<Site>) -> Result<Self, Trouble> {
        let peer = parts.extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip());
        let place = place(peer.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)));
        let admitted = site.admit(&site.guests, &place).map(|()| Self);
        admitted.inspect_err(|refused| metric::guest(refused.word()))
    }
}

/// Who shares an allowance: an address, or the network that one subscriber has.
fn place(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => match v6.to_ipv4_mapped() {
            Some(v4) => IpAddr::V4(v4),
            None => {
                let [a, b, c, d, ..] = v6.segments();
                IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
            }
        },
        v4 => v4,
    }
}

/// Makes a guest. With the last guest token of the same meeting as bearer, good or ended less than an hour ago, it is the same guest.
#[utoipa::path(
    post, path = "/api/v1/meetings/{code}/guest-token", tag = "meetings", operation_id = "meetingGuest", security(()),
    params(("code" = String, Path, description = "The code of the meeting")),
    request_body = NewGuest, responses((status = 200, body = GuestBody))
)]
pub(super) async fn guest(
    State(site): State<Arc<Site>>,
    _: Admitted,
    headers: HeaderMap,
    service::Path(code): service::Path<String>,
    Body(guest): Body<NewGuest>,
) -> Result<Json<GuestBody>, Trouble> {
    let made = made(&site, &code, guest, bearer(&headers).map(str::to_owned)).await;
    metric::guest(made.as_ref().map_or_else(Trouble::word, |_| "success"));
    made.map(Json)
}

async fn made(
    site: &Site,
    code: &str,
    guest: NewGuest,
    previous: Option<String>,
) -> Result<GuestBody, Trouble> {
    let (least, most) = limits::GUEST_NAME;
    checked_name(&guest.display_name, least, most)?;
    let meeting = site.by_code(code).await?.meeting;
    if !meeting.allow_guests {
        return Err(no_guests());
    }
    if meeting.closed_ms.is_some() {
        return Err(closed());
    }
    let (meeting_id, display_name) = (meeting.id, guest.display_name);
    let invitation = Invitation { meeting_id, display_name, previous };
    let signed = site.options.signer.guest(&invitation)?;
    let Invitation { meeting_id, display_name, .. } = invitation;
    Ok(GuestBody { token: signed.token, expires_in: signed.life.as_secs(), meeting_id, display_name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscriber_has_one_allowance_whatever_address_it_takes() {
        let place = |text: &str| place(text.parse().unwrap()).to_string();
        assert_eq!(place("192.0.2.7"), "192.0.2.7");
        assert_eq!(place("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(place("2001:db8:1:2:3:4:5:6"), place("2001:db8:1:2::9"));
        assert_ne!(place("2001:db8:1:2::1"), place("2001:db8:1:3::1"));
    }
}
