//! The one crypto provider of the process.

/// Makes ring the provider for every TLS client in this process that names none, such as reqwest's. Call it
/// before making one. Idempotent.
pub fn install_crypto() {
    // An error means that one is installed already, and ring is the only one linked.
    let _ = rustls::crypto::ring::default_provider().install_default();
}
