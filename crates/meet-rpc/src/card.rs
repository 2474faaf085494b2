//! Who a node is: its names in the store, and what it says about itself there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lease::{Key, Meta, Prefix, Result};
use serde::{Deserialize, Serialize};

use crate::limits;

/// The two kinds of nodes that the registry has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// A meeting controller.
    Controller,
    /// A media handler.
    Handler,
}

/// What a node says about itself, in the meta of its lease `mc:{id}` or `mh:{id}`. While that lease is held, the node is there.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    /// Where it is.
    pub region: String,
    /// Where it is there.
    pub zone: String,
    /// Where other parts call it.
    #[serde(rename = "grpc")]
    pub grpc_endpoint: String,
    /// Where clients call it, as a whole URL.
    #[serde(rename = "wt")]
    pub webtransport_endpoint: String,
    /// The hashes of its certificates (base64), when no authority that clients know has signed them.
    #[serde(rename = "certs")]
    pub certificate_hashes: Vec<String>,
    /// Most meetings of a controller.
    pub max_meetings: u32,
    /// Most participants of a controller.
    pub max_participants: u32,
    /// Most streams of a handler.
    pub max_streams: u32,
    /// What it runs.
    pub version: String,
}

impl Kind {
    const fn word(self) -> &'static str {
        match self {
            Self::Controller => "mc",
            Self::Handler => "mh",
        }
    }

    /// What the leases of all nodes of this kind begin with.
    pub fn prefix(self) -> Result<Prefix> {
        Prefix::new(format!("{}:", self.word()))
    }

    /// The lease of a node, which its own keeper holds under its id.
    pub fn lease(self, id: &str) -> Result<Key> {
        Key::new(format!("{}:{}", self.word(), named(id)?))
    }

    /// The record of what the node last said of its load, which the global controller keeps.
    pub fn load(self, id: &str) -> Result<Key> {
        Key::new(format!("{}:{}:load", self.word(), named(id)?))
    }
}

/// The id of a node: 1 to 64 letters, digits, `-`, `_` and `.`.
fn named(id: &str) -> Result<&str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if !(1..=limits::NODE_ID).contains(&id.len()) || !id.bytes().all(plain) {
        let why = format!("1 to {} letters, digits, '-', '_' and '.' are an id", limits::NODE_ID);
        return Err(lease::Error::invalid("node id", why));
    }
    Ok(id)
}

impl Card {
    /// The card as the meta of a lease, which has room for 1 KiB.
    pub fn meta(&self) -> Result<Meta> {
        let text = serde_json::to_string(self).map_err(|e| lease::Error::invalid("card", e.to_string()))?;
        Meta::new(text)
    }

    /// The card in the meta of a lease; none when there is something else.
    pub fn read(meta: &Meta) -> Option<Self> {
        serde_json::from_str(meta.as_str()).ok()
    }

    /// With the hashes of these certificates.
    #[must_use]
    pub fn certificates<'a>(self, hashes: impl IntoIterator<Item = &'a [u8]>) -> Self {
        Self { certificate_hashes: hashes.into_iter().map(|hash| STANDARD.encode(hash)).collect(), ..self }
    }

    /// The hashes of its certificates, raw.
    pub fn raw_certificates(&self) -> Vec<Vec<u8>> {
        self.certificate_hashes.iter().filter_map(|hash| STANDARD.decode(hash).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_with_long_endpoints_and_two_certificates_fits_and_is_read_back() {
        let card = Card {
            region: "us-east-1".to_owned(),
            zone: "us-east-1a".to_owned(),
            grpc_endpoint: format!("https://{}:50052", "h".repeat(120)),
            webtransport_endpoint: format!("https://{}:4433/wt/mc", "h".repeat(120)),
            version: "0.1.0".to_owned(),
            max_meetings: 1_000,
            max_participants: 10_000,
            ..Card::default()
        };
        let card = card.certificates([[1_u8; 32].as_slice(), [2; 32].as_slice()]);
        assert_eq!(Card::read(&card.meta().unwrap()), Some(card.clone()));
        assert_eq!(card.raw_certificates(), [vec![1; 32], vec![2; 32]]);
        assert_eq!(Card::read(&Meta::new("pid 7").unwrap()), None);
    }

    #[test]
    fn the_names_of_a_node_cannot_leave_their_prefix() {
        assert_eq!(Kind::Controller.lease("mc-1").unwrap().as_str(), "mc:mc-1");
        assert_eq!(Kind::Handler.load("mh.eu_2").unwrap().as_str(), "mh:mh.eu_2:load");
        for bad in ["", "a:b", "a b", "a/b", &"m".repeat(65)] {
            assert!(Kind::Controller.lease(bad).is_err(), "{bad}");
        }
    }
}
