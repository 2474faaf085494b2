//! Parts of the service that may ask for tokens.

use std::collections::BTreeMap;
use std::fmt;

use meet_wire::jwt::ServiceType;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::limits;

/// One part of the service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Which part it is.
    pub service_type: ServiceType,
    /// What it may do.
    pub scopes: Vec<String>,
    /// The digest of its secret.
    secret: [u8; 32],
}

/// Who asks, with the proof.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The client.
    pub client_id: String,
    /// Its secret.
    pub client_secret: String,
}

/// All of them, by id.
#[derive(Clone, Default, Debug)]
pub struct Clients(BTreeMap<String, Client>);

impl Clients {
    /// The same with one more; none when there are too many.
    #[must_use]
    pub fn with(
        mut self,
        credentials: &Credentials,
        service_type: ServiceType,
        scopes: &[&str],
    ) -> Option<Self> {
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        let client = Client { service_type, scopes, secret: digest(&credentials.client_secret) };
        self.0.insert(credentials.client_id.clone(), client);
        (self.0.len() <= limits::CLIENTS).then_some(self)
    }

    /// The client whose secret this is. Takes as long for an unknown client as for a wrong secret.
    pub fn check(&self, credentials: &Credentials) -> Option<&Client> {
        let client = self.0.get(&credentials.client_id);
        let expected = client.map_or([0; 32], |client| client.secret);
        let same: bool = expected.ct_eq(&digest(&credentials.client_secret)).into();
        client.filter(|_| same)
    }
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Credentials({}, hidden)", self.client_id)
    }
}
