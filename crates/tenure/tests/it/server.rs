//! The command line and a running server: how it is found, what it allows, and what happens when it is gone.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use tempfile::TempDir;
use tenure_service::{ApiToken, Auth, Scope, Scopes, Settings, Shutdown, auth_layer, login_routes};
use tenure_testkit::{Mode, Process, Proxy};

use crate::harness::{CommandOutput, code, lives, number, run_command, tenure};
use crate::stamps::{Stamps, uptime};

/// A server on a memory store, with the files that `tenure up` leaves for the command line.
struct Up {
    address: SocketAddr,
    dir: TempDir,
    shutdown: Shutdown,
    thread: Option<JoinHandle<()>>,
}

impl Up {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("tenure-data");
        let (ready, started) = sync_channel(1);
        let shutdown = Shutdown::new();
        let end = shutdown.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let (server, router) = mount(&data).await;
                ready.send(server.local_addr()).unwrap();
                server.run(router, end).await.unwrap();
            });
        });
        let address = started.recv().unwrap();
        fs::write(dir.path().join("tenure-data/address"), format!("http://{address}\n")).unwrap();
        Self { address, dir, shutdown, thread: Some(thread) }
    }

    fn tenure(&self, args: &[&str]) -> CommandOutput {
        run_command(tenure(self.dir.path(), args))
    }
}

/// The admin's token is the one in the folder; `reader` may only read, `writer` not act for Tenure's services.
async fn mount(data: &Path) -> (tenure_service::Server, axum::Router) {
    let settings =
        Settings { listen: "127.0.0.1:0".parse().unwrap(), data_dir: data.to_owned(), ..Settings::default() };
    let server = tenure_service::Server::bind(&settings).await.unwrap();
    let first = Auth::open(&settings, server.local_addr()).unwrap();
    drop(first);
    let admin = Auth::local_token(data).unwrap().unwrap();
    let read: Scopes = ["lease:read".parse::<Scope>().unwrap()].into_iter().collect();
    let write: Scopes = ["lease:write".parse::<Scope>().unwrap()].into_iter().collect();
    let api_tokens = vec![
        ApiToken::new("admin", &admin, Scopes::all_admin()),
        ApiToken::new("reader", "reader", read),
        ApiToken::new("writer", "writer", write),
    ];
    let settings = Settings { api_tokens, ..settings };
    let auth = Arc::new(Auth::open(&settings, server.local_addr()).unwrap());
    fs::write(data.join("token"), &admin).unwrap();
    let store: Arc<dyn tenure_lease::Store> = tenure_store::Store::open("memory:").await.unwrap().into();
    let router = tenure_lease_api::grpc(store, tenure_lease_api::Options::default());
    (server, router.merge(login_routes(auth.clone())).layer(auth_layer(auth)))
}

impl Drop for Up {
    fn drop(&mut self) {
        self.shutdown.trigger();
        drop(self.thread.take().map(JoinHandle::join));
    }
}

#[test]
fn the_local_server_is_found() {
    let up = Up::start();
    let grant = up.tenure(&["lease", "acquire", "k", "--holder", "me", "--json"]);
    assert_eq!(grant.code, 0, "{}", grant.err);
    let list = up.tenure(&["lease", "ls", "--json"]).json();
    assert_eq!(list["items"][0]["holder"], "me");
    let elsewhere = tempfile::tempdir().unwrap();
    let folder = up.dir.path().join("tenure-data");
    for (name, value) in
        [("TENURE_DATA_DIR", folder.display().to_string()), ("TENURE_URL", format!("http://{}", up.address))]
    {
        let mut command = tenure(elsewhere.path(), &["lease", "get", "k", "--json"]);
        command.env(name, value).env("TENURE_TOKEN", fs::read_to_string(folder.join("token")).unwrap());
        assert_eq!(run_command(command).json()["state"], "held", "{name}");
    }
    let doctor = up.tenure(&["doctor", "--json"]);
    assert_eq!((doctor.code, &doctor.json()["ok"]), (0, &true.into()), "{}", doctor.out);
}

#[test]
fn a_missing_permission_has_its_own_exit_code() {
    let up = Up::start();
    let url = format!("tenure://{}", up.address);
    let reader = ["--store", &url, "--api-token", "reader"];
    assert_eq!(up.tenure(&[&["lease", "ls"], &reader[..]].concat()).code, 0);
    let elsewhere = tempfile::tempdir().unwrap();
    let refused = [
        up.tenure(&[&["lease", "acquire", "k"], &reader[..]].concat()),
        up.tenure(&["lease", "acquire", "poll:x", "--store", &url, "--api-token", "writer"]),
        up.tenure(&["lease", "ls", "--api-token", "invalid"]),
        up.tenure(&["login", "--api-token", "invalid"]),
        run_command(tenure(elsewhere.path(), &["lease", "ls", "--url", &url])),
    ];
    for (i, output) in refused.iter().enumerate() {
        assert_eq!(output.code, 77, "{i}: {}", output.err);
        assert!(output.err.contains("TENURE_TOKEN"), "{i}: {}", output.err);
    }
}

#[test]
fn login_prints_a_link_that_works_once() {
    let up = Up::start();
    let output = up.tenure(&["login"]);
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(output.out.starts_with(&format!("http://{}/#login=", up.address)), "{}", output.out);
    assert!(output.err.contains("10m"), "{}", output.err);
    let json = up.tenure(&["login", "--json"]).json();
    assert!(json["url"].is_string() && json["expiresInMs"] == 600_000, "{json}");
}

#[test]
fn a_missing_server_is_an_error_with_a_hint() {
    let up = Up::start();
    let address = up.dir.path().join("tenure-data/address");
    fs::write(address, "http://127.0.0.1:1\n").unwrap();
    for args in [&["lease", "ls"][..], &["login"]] {
        let output = up.tenure(args);
        assert_eq!(output.code, 69, "{}", output.err);
        assert!(output.err.contains("127.0.0.1:1") && output.err.contains("tenure up"), "{}", output.err);
    }
}

#[test]
fn work_is_gone_before_the_next_holder_works_when_the_server_is_out_of_reach() {
    let up = Up::start();
    let stamps = Stamps::new(up.dir.path());
    let token = fs::read_to_string(up.dir.path().join("tenure-data/token")).unwrap();
    let proxy = Proxy::start(up.address).unwrap();
    let run = |address: SocketAddr, wait: &str, script: &str| {
        let url = format!("tenure://{address}");
        let args = ["run", "k", "--ttl", "3s", "--wait", wait, "--store", &url, "--api-token", &token];
        Process::spawn(tenure(up.dir.path(), &[&args, &["--", "sh", "-c", script][..]].concat())).unwrap()
    };
    let first = run(proxy.addr(), "0s", &format!("echo group $$; {}", stamps.forever("first")));
    let group = number(&first, "group");
    stamps.wait_for("first");
    let second = run(up.address, "5m", &stamps.one("second"));
    proxy.set_both(Mode::Stall);
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert_eq!(code(&second), 0);
    assert!(!lives(group));
    assert!(stamps.last("first").uptime <= fault + std::time::Duration::from_secs(3));
    stamps.assert_in_turns();
}

#[test]
fn work_is_gone_before_the_deadline_when_tenure_up_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let up = Process::spawn(tenure(dir.path(), &["up", "--listen", "127.0.0.1:0"])).unwrap();
    let address = dir.path().join("tenure-data/address");
    tenure_testkit::wait::until("it is up", crate::harness::LIMIT, || address.exists()).unwrap();
    let stamps = Stamps::new(dir.path());
    let script = format!("echo group $$; {}", stamps.forever("first"));
    let args = ["run", "k", "--ttl", "3s", "--", "sh", "-c", &script];
    let first = Process::spawn(tenure(dir.path(), &args)).unwrap();
    let group = number(&first, "group");
    stamps.wait_for("first");
    up.pause().unwrap();
    let fault = uptime();
    assert_eq!(code(&first), 76);
    assert!(!lives(group));
    assert!(stamps.last("first").uptime <= fault + std::time::Duration::from_secs(3));
    up.resume().unwrap();
    up.terminate().unwrap();
    assert_eq!(code(&up), 0);
}
