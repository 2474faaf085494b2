//! The service clients that may request tokens.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use tenure_meet_wire::jwt::ServiceType;

use crate::limits;

/// A service client.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Its service type.
    pub service_type: ServiceType,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// The digest of its secret.
    secret: [u8; 32],
}

/// Client credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The client id.
    pub client_id: String,
    /// The client secret.
    pub client_secret: String,
}

/// All clients, by id.
#[derive(Clone, Default, Debug)]
pub struct Clients(BTreeMap<String, Client>);

impl Clients {
    /// Adds a client. `None` if there are too many.
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

    /// Authenticates a client. Takes the same time for an unknown client as for a wrong secret.
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
