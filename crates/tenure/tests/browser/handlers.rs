//! Media handlers that leave: the page goes on with the other one.

use tempfile::TempDir;
use tenure_testkit::{Chromium, Process, RedisServer, free_port, wait};

use crate::LIMIT;
use crate::console::unauthenticated;
use crate::media::{GAP, Sender, counts, frugal_guest, stats, turn_on};
use crate::person::Person;
use crate::up::{Up, Variable, tenure};

const SECRET: &str = "the-secret-of-the-handlers-for-this-test";

/// `tenure up` on Redis, and media handlers beside it.
struct Cluster {
    up: Up,
    handlers: Vec<(u16, Process)>,
    grpc: u16,
    variables: Vec<Variable>,
    folder: TempDir,
    _redis: RedisServer,
}

impl Cluster {
    fn start() -> Self {
        let redis = RedisServer::start().unwrap();
        let grpc = free_port().unwrap();
        let variables: Vec<Variable> = vec![
            ("TENURE_STORE", format!("{}?quarantine_ms=0", redis.url())),
            ("TENURE_SEAL_KEY", "0123456789abcdef0123456789abcdef".to_owned()),
            ("TENURE_MEET__BINDING_TOKEN_SECRET", "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=".to_owned()),
            ("TENURE_MEET__MH_CLIENT_SECRET", SECRET.to_owned()),
            // Long enough for a busy machine.
            ("TENURE_MEET__LEASE_TTL_MS", "30000".to_owned()),
            ("TENURE_MEET__LEASE_RENEW_MS", "1000".to_owned()),
        ];
        let listens = ("TENURE_MEET__GRPC_BIND_ADDRESS", format!("127.0.0.1:{grpc}"));
        let up = Up::with_other_handlers([variables.clone(), vec![listens]].concat());
        let folder = tempfile::tempdir().unwrap();
        let mut cluster = Self { up, handlers: Vec::new(), grpc, variables, folder, _redis: redis };
        // A meeting uses two; the third takes the place of the first that leaves.
        (0..3).for_each(|_| cluster.add_handler());
        cluster
    }

    /// Starts another handler and waits until it is registered.
    fn add_handler(&mut self) {
        let port = free_port().unwrap();
        let id = format!("mh-{port}");
        let mut command = tenure(self.folder.path());
        command.args(["mh", "--listen", "127.0.0.1:0", "--data-dir", &id]);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.envs([
            ("TENURE_LOG__FILTER", "warn".to_owned()),
            ("TENURE_ALLOWED_ORIGINS", self.up.url.clone()),
            ("TENURE_MEET__ID", id),
            ("TENURE_MEET__AC_ENDPOINT", self.up.url.clone()),
            ("TENURE_MEET__GC_GRPC_URL", format!("http://127.0.0.1:{}", self.grpc)),
            ("TENURE_MEET__CLIENT_ID", "media-handler".to_owned()),
            ("TENURE_MEET__CLIENT_SECRET", SECRET.to_owned()),
            ("TENURE_MEET__WEBTRANSPORT_BIND_ADDRESS", format!("127.0.0.1:{port}")),
            ("TENURE_MEET__GRPC_BIND_ADDRESS", "127.0.0.1:0".to_owned()),
        ]);
        let process = Process::spawn(command).unwrap();
        process.wait_for_line(|line| line.starts_with("Press Ctrl-C"), LIMIT).unwrap();
        self.handlers.push((port, process));
        let registered = self.handlers.len() as u64;
        let held = || self.up.http("GET", "/v1/leases?prefix=mh:", None).1;
        // The handler inside `tenure up` is registered as well.
        wait::until("the handler is registered", LIMIT, || {
            held()["leases"].as_array().is_some_and(|all| all.len() as u64 > registered)
        })
        .unwrap();
    }

    /// The process of the handler that carries the media of a page. It is not a handler any more.
    fn take_handler_of(&mut self, person: &Person) -> Process {
        let stats = stats(person);
        let sessions = stats["sessions"].as_array().unwrap();
        let active = sessions.iter().find(|session| session["active"] == true).unwrap();
        let url = active["url"].as_str().unwrap();
        let at = self.handlers.iter().position(|(port, _)| url.contains(&format!(":{port}/"))).unwrap();
        self.handlers.remove(at).1
    }
}

#[test]
fn picture_and_sound_go_on_when_a_handler_drains_and_when_one_is_killed() {
    let mut cluster = Cluster::start();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &cluster.up);
    let bob = frugal_guest(&chromium, &link);
    bob.enter("Bob");
    turn_on(&bob);
    let seen = Sender { watcher: &ada, id: bob.id() };
    for killed in [false, true] {
        let two = "stats.sessions.filter(({ state }) => state === 'open').length === 2";
        counts(&ada, two);
        counts(&bob, two);
        seen.is_seen_and_heard();
        let handler = cluster.take_handler_of(&ada);
        if killed {
            handler.kill9().unwrap();
        } else {
            handler.terminate().unwrap();
        }
        seen.is_seen_and_heard();
        assert!(seen.gap() < GAP, "killed: {killed}: {}", stats(&ada));
    }
    let expected = |url: &str| url.contains("/wt/mh");
    for person in [&ada, &bob] {
        person.is_calm_but(|trouble| unauthenticated(trouble) || expected(&trouble.url));
    }
}
