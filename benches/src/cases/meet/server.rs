//! A meeting server pinned to one core, and participants whose tokens were signed in advance.

use std::fs::{self, File};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use serde_json::json;
use tenure_keeper::OsEntropy;
use tenure_meet_ac::{Authority, Clients, Seal, StoreVault, Vault};
use tenure_meet_client::join_api::{Admission, RestJoinApi, create_with};
use tenure_meet_client::{Client, Dial, Events, JoinApi, JoinApiError, Options};
use tenure_meet_wire::jwt::MemberTokenRequest;
use tenure_meet_wire::transport::quic::{Dialer, Timing};
use tenure_store::{BootClock, Store};
use tenure_testkit::{Process, RedisServer};

use crate::cases::{Bench, store_url};
use crate::clock::pause;

const LIMIT: Duration = Duration::from_secs(30);
const SEAL: &str = "a-seal-that-is-only-for-benchmarks";
const SECRET: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const TOKEN: &str = "bench-token-with-scope-meet-write";
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// The server, its Redis, and the signing keys of its tokens.
pub(super) struct BenchServer {
    process: Process,
    pub(super) redis: RedisServer,
    address: String,
    authority: Authority,
    _folder: tempfile::TempDir,
}

/// A meeting that can be joined.
#[derive(Clone)]
pub(super) struct Meeting(Admission);

impl BenchServer {
    pub(super) fn start(bench: &Bench<'_>) -> Result<Self> {
        let folder = bench.folder("meet")?;
        let redis = RedisServer::start()?;
        pin(redis.pid(), LOAD)?;
        pin(std::process::id(), LOAD)?;
        let program = std::env::current_exe()?.with_file_name("tenure");
        ensure!(program.is_file(), "{} is not built; run `cargo xtask bench`", program.display());
        let data = folder.path().join("data");
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER]).arg(program);
        command.args(["up", "--only", "meet", "--listen", "127.0.0.1:0", "--store", &store_url(&redis)]);
        command.arg("--data-dir").arg(&data).current_dir(folder.path());
        command.stderr(File::create(folder.path().join("log"))?);
        for (name, value) in [
            ("MC_BINDING_TOKEN_SECRET", SECRET),
            ("TENURE_SEAL_KEY", SEAL),
            ("TENURE_API_TOKENS", &format!("{TOKEN}=meet:write")),
            ("TENURE_LOG__FILTER", "error"),
            // All participants of a round may join at once.
            ("TENURE_MEET__MAX_WAITING", "4096"),
        ] {
            command.env(name, value);
        }
        let process = Process::spawn(command)?;
        process.wait_for_line(|line| line.contains("Ctrl-C"), LIMIT)?;
        let address = fs::read_to_string(data.join("address")).context("no address file")?;
        let authority = bench.runtime.block_on(authority(&redis))?;
        Ok(Self { process, redis, address: address.trim().to_owned(), authority, _folder: folder })
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Creates meetings and waits until each is assigned to a controller.
    pub(super) async fn meetings(&self, count: usize) -> Result<Vec<Meeting>> {
        let mut made = Vec::with_capacity(count);
        for n in 0..count {
            let settings = json!({ "display_name": format!("meeting {n}"), "max_participants": 1_000 });
            let meeting = create_with(&self.address, TOKEN, &settings, &BootClock).await?;
            let join_api =
                RestJoinApi::user(&self.address, &meeting.meeting_code, TOKEN, Arc::new(BootClock))?;
            let mut admitted = join_api.admit().await;
            for _ in 0..100 {
                if admitted.is_ok() {
                    break;
                }
                // The roles discover each other within seconds of the start.
                pause(Duration::from_millis(100)).await;
                admitted = join_api.admit().await;
            }
            made.push(Meeting(admitted?));
        }
        Ok(made)
    }

    /// The join API of a participant with a signed token for this meeting.
    pub(super) fn seat(&self, meeting: &Meeting, who: usize) -> Result<Arc<dyn JoinApi>> {
        let token = self.authority.sign_member(&MemberTokenRequest {
            user: format!("u_bench{who:08}"),
            meeting_id: meeting.0.meeting_id.clone(),
            home_org_id: None,
            meeting_org_id: "bench".to_owned(),
            host: false,
        })?;
        Ok(Arc::new(Ready(Admission { token, ..meeting.0.clone() })))
    }
}

/// The signing keys of the server, read from its store.
async fn authority(redis: &RedisServer) -> Result<Authority> {
    let store: Arc<dyn tenure_lease::Store> = Store::open(&store_url(redis)).await?.into();
    let seal = Seal::new(SEAL.as_bytes()).context("invalid seal key")?;
    let clock = store.clock();
    let vault = Vault::Store(StoreVault::new(store, seal));
    Ok(Authority::open(vault, Clients::default(), clock, Arc::new(OsEntropy)).await?)
}

/// A join API that returns a token signed in advance.
struct Ready(Admission);

#[async_trait]
impl JoinApi for Ready {
    async fn admit(&self) -> Result<Admission, JoinApiError> {
        Ok(self.0.clone())
    }
}

/// One socket for all clients.
pub(super) fn dialer() -> Result<Dialer> {
    Ok(Dialer::new(ANY, Timing { idle: LIMIT, keep_alive: Duration::from_secs(1) })?)
}

/// Joins a meeting, with a queue of events if `events` is not zero.
pub(super) async fn enter(
    join_api: Arc<dyn JoinApi>,
    dial: Arc<dyn Dial>,
    events: usize,
) -> Result<(Client, Events)> {
    let options = Options::new("participant", Arc::new(BootClock), Arc::new(OsEntropy)).bare();
    Ok(Client::join(join_api, dial, Options { events, ..options }).await?)
}

/// The core of the server, and that of Redis and the load.
pub(crate) const SERVER: &str = "0";
pub(crate) const LOAD: &str = "1";

/// Pins a process and all its threads to a core.
pub(crate) fn pin(pid: u32, core: &str) -> Result<()> {
    let done = Command::new("taskset").args(["-acp", core, &pid.to_string()]).output().context("taskset")?;
    ensure!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    Ok(())
}
