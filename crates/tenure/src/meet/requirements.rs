//! What a role needs before it starts. All that is missing or wrong is reported at once.

use std::net::SocketAddr;

use tenure_meet_ac::Seal;

use super::settings::{self, Settings};
use super::{Role, identity};
use crate::cli::{Failure, Result};

/// What is missing or wrong, with what to do about it.
#[derive(Debug, Default)]
pub(super) struct Faults {
    faults: Vec<String>,
    hints: Vec<String>,
}

impl Faults {
    pub(super) fn add(&mut self, fault: impl Into<String>) {
        self.faults.push(fault.into());
    }

    fn add_with_hint(&mut self, fault: impl Into<String>, hint: impl Into<String>) {
        self.add(fault);
        self.hints.push(hint.into());
    }

    /// Adds an error, if it is one.
    fn check<T>(&mut self, checked: Result<T, String>) {
        if let Err(fault) = checked {
            self.add(fault);
        }
    }

    /// Fails with all faults, one per line.
    pub(super) fn finish(self) -> Result<()> {
        let failure = match self.faults.as_slice() {
            [] => return Ok(()),
            faults => Failure::usage(faults.join("\n")),
        };
        Err(if self.hints.is_empty() { failure } else { failure.hint(self.hints.join("\n")) })
    }
}

/// Checks everything that can be checked before the store is opened.
pub(super) fn check(
    role: Role,
    service: &tenure_service::Settings,
    settings: &Settings,
    shared: bool,
    faults: &mut Faults,
) {
    if role != Role::All && !shared {
        faults.add_with_hint(
            format!(
                "store: tenure {} shares one store with the other parts of meetings, and the embedded store serves one \
                 process only",
                role.as_str()
            ),
            "use a store that all parts reach: --store redis://HOST:PORT, or --store tenure://HOST:PORT of a running\n\
             `tenure up --only lease`; `tenure cluster` runs all parts on one machine, `tenure up` in one process",
        );
    }
    if !role.has_gc() {
        check_credentials(role, settings, faults);
    }
    let secrets = &settings.secrets;
    for (name, text) in [
        ("MC_BINDING_TOKEN_SECRET", &secrets.binding),
        ("MC_BINDING_TOKEN_SECRET_PREVIOUS", &secrets.binding_previous),
    ] {
        if let Some(text) = text {
            faults.check(identity::master_secret(name, text));
        }
    }
    if let Some(key) = service.seal_key.as_ref().filter(|_| role.has_gc()) {
        faults.check(Seal::new(key.as_bytes()).map_err(|error| format!("TENURE_SEAL_KEY: {error}")));
    }
    check_grpc_address(role, service, settings, faults);
}

/// A part that runs alone fetches its tokens from the authority.
fn check_credentials(role: Role, settings: &Settings, faults: &mut Faults) {
    let name = role.as_str();
    match &settings.ac_endpoint {
        None => faults.add(format!(
            "AC_ENDPOINT is not set: tenure {name} needs the address of `tenure gc`, such as http://127.0.0.1:7400"
        )),
        Some(url) => faults.check(checked_url("AC_ENDPOINT", url)),
    }
    faults.check(checked_url("GC_GRPC_URL", &settings.gc_grpc_url));
    if settings.secrets.client.is_none() {
        let variable = format!("{}_CLIENT_SECRET", name.to_uppercase());
        faults.add_with_hint(
            format!("{variable} is not set: tenure {name} needs it to fetch its service tokens"),
            format!(
                "`tenure secrets export --role {name} --data-dir DIR` prints the secrets, with the data directory of\n\
                 `tenure gc`"
            ),
        );
    }
}

fn checked_url(name: &str, url: &str) -> Result<(), String> {
    let parsed = url.parse::<axum::http::Uri>().ok();
    let scheme = parsed.as_ref().and_then(axum::http::Uri::scheme_str);
    match (scheme, parsed.as_ref().and_then(axum::http::Uri::authority)) {
        (Some("http" | "https"), Some(_)) => Ok(()),
        _ => Err(format!("{name}: {url:?} must be a URL such as http://127.0.0.1:7400")),
    }
}

/// The address of the gRPC listener; none if all parts run in this process and none is configured.
pub(super) fn grpc_address(role: Role, settings: &Settings) -> Option<SocketAddr> {
    let own = SocketAddr::from(([127, 0, 0, 1], settings::ports(role).1));
    settings.grpc_bind.or((role != Role::All).then_some(own))
}

fn check_grpc_address(
    role: Role,
    service: &tenure_service::Settings,
    settings: &Settings,
    faults: &mut Faults,
) {
    let Some(address) = grpc_address(role, settings) else { return };
    if !address.ip().is_loopback() && service.tls.is_none() && !service.insecure_http {
        faults.add_with_hint(
            format!(
                "meet.grpc_bind_address: {address} is reachable from other machines, and without TLS tokens would be \
                 sent in clear text"
            ),
            "give [tls] cert and key, or set insecure_http = true if the network is trusted",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(role: Role, toml: &str, shared: bool) -> Failure {
        let mut faults = Faults::default();
        let settings = Settings::parse(Some(&toml::from_str(toml).unwrap()), &mut faults);
        check(role, &tenure_service::Settings::default(), &settings, shared, &mut faults);
        faults.finish().unwrap_err()
    }

    #[test]
    fn a_start_names_all_that_is_missing_or_wrong() {
        let toml = "grpc_bind_address = '0.0.0.0:1'\nbinding_token_secret = 'short'\nid = 'a:b'\n\
                    lease_renew_ms = 4000";
        let failure = faults(Role::Mc, toml, false);
        let lines: Vec<&str> = failure.detail().lines().collect();
        for (line, start) in lines.iter().zip([
            "meet.lease_renew_ms: must be at most a third",
            "meet.id: must have",
            "store: tenure mc shares one store",
            "AC_ENDPOINT is not set",
            "GC_GRPC_URL: ",
            "MC_CLIENT_SECRET is not set",
            "MC_BINDING_TOKEN_SECRET",
            "meet.grpc_bind_address: 0.0.0.0:1 is reachable",
        ]) {
            assert!(line.starts_with(start), "{line:?} for {start:?}");
        }
        assert_eq!(lines.len(), 8, "{lines:#?}");
        let hints = failure.remedy().unwrap();
        for hint in ["tenure secrets export --role mc", "--store redis://", "insecure_http"] {
            assert!(hints.contains(hint), "{hint}: {hints}");
        }
    }

    #[test]
    fn a_handler_is_asked_for_variables_of_its_own_name() {
        let failure = faults(Role::Mh, "ac_endpoint = 'gc:7400'\ngc_grpc_url = 'http://gc:50051'", true);
        let lines: Vec<&str> = failure.detail().lines().collect();
        assert!(lines[0].starts_with("AC_ENDPOINT: \"gc:7400\" must be a URL"), "{lines:?}");
        assert!(lines[1].starts_with("MH_CLIENT_SECRET is not set"), "{lines:?}");
        assert_eq!(lines.len(), 2);
    }
}
