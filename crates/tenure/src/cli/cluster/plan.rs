//! Which processes a cluster has, and how each is started.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::greeting::Greeting;
use crate::cli::remote;

/// Zones, so that the two handlers of a meeting are in different ones.
const ZONES: [&str; 3] = ["a", "b", "c"];

/// A process and how it is started.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct MemberPlan {
    pub(super) name: String,
    /// In which order members end; the same number ends together.
    pub(super) ends: u8,
    pub(super) args: Vec<String>,
    /// Variables. Secrets are only here: arguments are visible to other users.
    pub(super) variables: Vec<(String, String)>,
}

/// What the nodes need to find the others.
pub(super) struct Endpoints {
    pub(super) store: String,
    pub(super) token: Option<String>,
    /// The authority: the address of the global controller.
    pub(super) authority: String,
    pub(super) gc_grpc: String,
}

/// Directories, ports and numbers of a cluster.
pub(super) struct Layout {
    dir: PathBuf,
    ports: Option<u16>,
    mcs: u16,
    mhs: u16,
}

impl Layout {
    pub(super) fn new(dir: &Path, ports: Option<u16>, mcs: u16, mhs: u16) -> Self {
        Self { dir: dir.to_owned(), ports, mcs, mhs }
    }

    /// The data directory of a member.
    pub(super) fn data_dir(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// A loopback address: the port with this number of the cluster, or a free one.
    fn address(&self, number: u16) -> String {
        format!("127.0.0.1:{}", self.ports.map_or(0, |first| first.saturating_add(number)))
    }

    fn member(&self, name: &str, command: &[&str], listen: String, ends: u8) -> MemberPlan {
        let data_dir = self.data_dir(name).display().to_string();
        let command = command.iter().map(|word| (*word).to_owned());
        let flags = ["--listen".to_owned(), listen, "--data-dir".to_owned(), data_dir];
        let parent = ["--end-with-parent".to_owned(), std::process::id().to_string()];
        let args = command.chain(flags).chain(parent).collect();
        MemberPlan { name: name.to_owned(), ends, args, variables: Vec::new() }
    }

    /// The process that serves the embedded store.
    pub(super) fn store(&self) -> MemberPlan {
        self.member("store", &["up", "--only", "lease"], self.address(0), 3)
    }

    pub(super) fn gc(&self, listen: SocketAddr, store: &str, token: Option<&str>) -> MemberPlan {
        let mut plan = self.member("gc", &["gc"], listen.to_string(), 2);
        plan.set_store(store, token);
        plan.set("grpc_bind_address", &self.address(1));
        plan
    }

    /// The controllers and handlers, with the secrets for each kind.
    pub(super) fn nodes(
        &self,
        endpoints: &Endpoints,
        for_mc: &[(&'static str, String)],
        for_mh: &[(&'static str, String)],
    ) -> Vec<MemberPlan> {
        let node = |role: &str, number: u16, port: u16, ends: u8, secrets: &[(&'static str, String)]| {
            let name = format!("{role}-{number}");
            let mut plan = self.member(&name, &[role], self.address(port), ends);
            plan.set_store(&endpoints.store, endpoints.token.as_deref());
            plan.set("id", &name);
            plan.set("zone", ZONES[usize::from(number - 1) % ZONES.len()]);
            plan.set("webtransport_bind_address", &self.address(port));
            plan.set("grpc_bind_address", &self.address(port.saturating_add(1)));
            plan.set("ac_endpoint", &endpoints.authority);
            plan.set("gc_grpc_url", &endpoints.gc_grpc);
            plan.variables.extend(secrets.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            plan
        };
        let controllers = (1..=self.mcs).map(|number| node("mc", number, 2 * number, 0, for_mc));
        let handlers = (1..=self.mhs).map(|number| node("mh", number, 2 * (self.mcs + number), 1, for_mh));
        controllers.chain(handlers).collect()
    }
}

impl MemberPlan {
    /// Sets a setting of `[meet]`.
    fn set(&mut self, name: &str, value: &str) {
        let name = format!("TENURE_MEET__{}", name.to_uppercase());
        self.variables.retain(|(known, _)| *known != name);
        self.variables.push((name, value.to_owned()));
    }

    fn set_store(&mut self, store: &str, token: Option<&str>) {
        self.args.extend(["--store".to_owned(), store.to_owned()]);
        self.variables.extend(token.map(|token| ("TENURE_TOKEN".to_owned(), token.to_owned())));
    }

    /// The same member at the addresses that it had: others know them.
    pub(super) fn at(&self, before: &Greeting) -> Self {
        let mut plan = self.clone();
        if let Some(at) = plan.args.iter().position(|arg| arg == "--listen") {
            plan.args[at + 1] = remote::host(&before.address).to_owned();
        }
        if let Some(grpc) = &before.grpc {
            plan.set("grpc_bind_address", remote::host(grpc));
        }
        if let Some(clients) = &before.clients {
            plan.set("webtransport_bind_address", clients);
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoints() -> Endpoints {
        Endpoints {
            store: "redis://h:1".to_owned(),
            token: None,
            authority: "http://127.0.0.1:7400".to_owned(),
            gc_grpc: "http://127.0.0.1:9".to_owned(),
        }
    }

    fn variable<'a>(plan: &'a MemberPlan, name: &str) -> Option<&'a str> {
        let found = plan.variables.iter().filter(|(known, _)| known == name).map(|(_, value)| value.as_str());
        let found: Vec<&str> = found.collect();
        assert!(found.len() <= 1, "{name} is set twice");
        found.first().copied()
    }

    #[test]
    fn fixed_ports_do_not_overlap_and_handlers_are_in_different_zones() {
        let layout = Layout::new(Path::new("d"), Some(7410), 3, 2);
        let nodes = layout.nodes(&endpoints(), &[("MC_CLIENT_SECRET", "s".to_owned())], &[]);
        let names: Vec<&str> = nodes.iter().map(|plan| plan.name.as_str()).collect();
        assert_eq!(names, ["mc-1", "mc-2", "mc-3", "mh-1", "mh-2"]);
        let udp = |plan| variable(plan, "TENURE_MEET__WEBTRANSPORT_BIND_ADDRESS").unwrap().to_owned();
        let grpc = |plan| variable(plan, "TENURE_MEET__GRPC_BIND_ADDRESS").unwrap().to_owned();
        let mut ports: Vec<String> = nodes.iter().flat_map(|plan| [udp(plan), grpc(plan)]).collect();
        ports.extend([layout.address(0), layout.address(1)]);
        let all = ports.len();
        ports.sort();
        ports.dedup();
        assert_eq!((ports.len(), ports[0].as_str()), (all, "127.0.0.1:7410"));
        let zones: Vec<_> = nodes[3..].iter().map(|plan| variable(plan, "TENURE_MEET__ZONE")).collect();
        assert_eq!(zones, [Some("a"), Some("b")]);
        assert_eq!(variable(&nodes[0], "MC_CLIENT_SECRET"), Some("s"));
        assert_eq!(variable(&nodes[3], "MC_CLIENT_SECRET"), None);
    }

    #[test]
    fn secrets_are_not_arguments() {
        let layout = Layout::new(Path::new("d"), None, 1, 1);
        let gc = layout.gc("127.0.0.1:0".parse().unwrap(), "tenure://h:1", Some("secret-token"));
        assert!(gc.args.iter().all(|arg| !arg.contains("secret-token")), "{:?}", gc.args);
        assert_eq!(variable(&gc, "TENURE_TOKEN"), Some("secret-token"));
    }

    #[test]
    fn a_member_starts_again_at_the_addresses_that_it_had() {
        let layout = Layout::new(Path::new("d"), None, 1, 1);
        let plan = &layout.nodes(&endpoints(), &[], &[])[0];
        let before = Greeting {
            console: None,
            address: "http://127.0.0.1:41".to_owned(),
            clients: Some("127.0.0.1:42".to_owned()),
            grpc: Some("http://127.0.0.1:43".to_owned()),
        };
        let again = plan.at(&before);
        assert_eq!(again.args.iter().filter(|arg| *arg == "127.0.0.1:41").count(), 1, "{:?}", again.args);
        assert_eq!(variable(&again, "TENURE_MEET__WEBTRANSPORT_BIND_ADDRESS"), Some("127.0.0.1:42"));
        assert_eq!(variable(&again, "TENURE_MEET__GRPC_BIND_ADDRESS"), Some("127.0.0.1:43"));
    }
}
