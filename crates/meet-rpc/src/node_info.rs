//! The identity of a node: its keys in the store and the info in its lease.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use tenure_lease::{Key, Meta, Prefix, Result};

use crate::limits;

/// The kinds of nodes in the registry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A meeting controller.
    Controller,
    /// A media handler.
    Handler,
}

/// What a node publishes about itself in the meta of its lease, `mc:{id}` or `mh:{id}`. A node is alive while that lease is held.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeInfo {
    /// Its region.
    pub region: String,
    /// Its zone within the region.
    pub zone: String,
    /// The gRPC endpoint for other roles.
    #[serde(rename = "grpc")]
    pub grpc_endpoint: String,
    /// The WebTransport endpoint for clients, as a full URL.
    #[serde(rename = "wt")]
    pub webtransport_endpoint: String,
    /// The certificate hashes (base64), when the certificates are not signed by a public authority.
    #[serde(rename = "certs")]
    pub certificate_hashes: Vec<String>,
    /// Maximum meetings of a controller.
    pub max_meetings: u32,
    /// Maximum participants of a controller.
    pub max_participants: u32,
    /// Maximum streams of a handler.
    pub max_streams: u32,
    /// The software version.
    pub version: String,
    /// Identifies the process on its machine, for a successor that can prove it dead. Empty if unknown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub process: String,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "mc",
            Self::Handler => "mh",
        }
    }

    /// The key prefix of the leases of all nodes of this kind.
    pub fn prefix(self) -> Result<Prefix> {
        Prefix::new(format!("{}:", self.as_str()))
    }

    /// The lease key of a node. The node's own keeper holds it under its id.
    pub fn lease(self, id: &str) -> Result<Key> {
        Key::new(format!("{}:{}", self.as_str(), validate_id(id)?))
    }

    /// The key of the node's last load report, written by the global controller.
    pub fn load(self, id: &str) -> Result<Key> {
        Key::new(format!("{}:{}:load", self.as_str(), validate_id(id)?))
    }
}

/// Validates a node id: 1 to 64 letters, digits, `-`, `_` and `.`.
fn validate_id(id: &str) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=limits::NODE_ID).contains(&id.len()) || !id.bytes().all(plain) {
        let why = format!("expected 1 to {} letters, digits, '-', '_' and '.'", limits::NODE_ID);
        return Err(tenure_lease::Error::invalid("node id", why));
    }
    Ok(id)
}

impl NodeInfo {
    /// Encodes the info as the meta of a lease, which is limited to 1 KiB.
    pub fn meta(&self) -> Result<Meta> {
        let text = serde_json::to_string(self)
            .map_err(|e| tenure_lease::Error::invalid("node_info", e.to_string()))?;
        Meta::new(text)
    }

    /// Decodes the info from the meta of a lease. Returns `None` if the meta is not a node info.
    pub fn read(meta: &Meta) -> Option<Self> {
        serde_json::from_str(meta.as_str()).ok()
    }

    /// Replaces the certificate hashes.
    #[must_use]
    pub fn certificates<'a>(self, hashes: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self { certificate_hashes: hashes.into_iter().map(|hash| STANDARD.encode(hash)).collect(), ..self }
    }

    /// The certificate hashes, decoded.
    pub fn raw_certificates(&self) -> Vec<Vec<u8>> {
        self.certificate_hashes.iter().filter_map(|hash| STANDARD.decode(hash).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_info_with_long_endpoints_and_two_certificates_round_trips() {
        let node_info = NodeInfo {
            region: "us-east-1".to_owned(),
            zone: "us-east-1a".to_owned(),
            grpc_endpoint: format!("https://{}:50052", "h".repeat(120)),
            webtransport_endpoint: format!("https://{}:4433/wt/mc", "h".repeat(120)),
            version: "0.1.0".to_owned(),
            max_meetings: 1_000,
            max_participants: 10_000,
            ..NodeInfo::default()
        };
        let node_info = node_info.certificates([[1_u8; 32].as_slice(), [2; 32].as_slice()]);
        assert_eq!(NodeInfo::read(&node_info.meta().unwrap()), Some(node_info.clone()));
        assert_eq!(node_info.raw_certificates(), [vec![1; 32], vec![2; 32]]);
        assert_eq!(NodeInfo::read(&Meta::new("pid 7").unwrap()), None);
    }

    #[test]
    fn the_keys_of_a_node_stay_under_their_prefix() {
        assert_eq!(Kind::Controller.lease("mc-1").unwrap().as_str(), "mc:mc-1");
        assert_eq!(Kind::Handler.load("mh.eu_2").unwrap().as_str(), "mh:mh.eu_2:load");
        for bad in ["", "a:b", "a b", "a/b", &"m".repeat(65)] {
            assert!(Kind::Controller.lease(bad).is_err(), "{bad}");
        }
    }
}
