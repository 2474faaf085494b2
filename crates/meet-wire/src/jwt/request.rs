//! What a meeting or guest token is issued for.

/// A request for the token of a member of a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberTokenRequest {
    /// The user.
    pub user: String,
    /// The meeting.
    pub meeting_id: String,
    /// The user's organization.
    pub home_org_id: Option<String>,
    /// The meeting's organization.
    pub meeting_org_id: String,
    /// Whether the user is a host.
    pub host: bool,
}

/// A request for the token of a guest of a meeting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestTokenRequest {
    /// The meeting.
    pub meeting_id: String,
    /// The name that the guest chose.
    pub display_name: String,
    /// The guest's last token. While it is valid, or expired less than an hour ago, the guest keeps its identity.
    pub previous: Option<String>,
}
