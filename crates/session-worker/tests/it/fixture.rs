//! A test fixture: a store, an output directory and worker options.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tenure_lease::{Key, Phase, Revoke, Status, Store};
use tenure_session::{
    CorrelationId, CreateOutcome, ProfileId, Reason, Secret, Secrets, Session, SessionId, SessionLog,
    SessionState, StartIntent, StopRequest, Target, UnixMs,
};
use tenure_session_worker::{Ffmpeg, Options, Source, StoreSessionLog, Worker, default_profiles};
use tenure_testkit::RedisServer;
use tenure_testkit::wait::until_async;

use crate::launcher::PlainLauncher;

/// Long enough for a loaded machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const GUARD: &str = "system:orchestrator:guard_lock";

pub(crate) struct Fixture {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: StoreSessionLog,
    pub(crate) options: Options,
    pub(crate) dir: TempDir,
}

impl Fixture {
    pub(crate) async fn memory() -> Self {
        Self::on("memory:").await
    }

    /// On a new Redis, so that no quarantine is needed.
    pub(crate) async fn redis(server: &RedisServer) -> Self {
        Self::on(&format!("{}?quarantine_ms=0&max_ttl_ms=600000", server.url())).await
    }

    pub(crate) async fn on(url: &str) -> Self {
        let store: Arc<dyn Store> = tenure_store::Store::open(url).await.unwrap().into();
        let dir = tempfile::tempdir().unwrap();
        let ms = Duration::from_millis;
        // Long TTLs, so that a slow machine loses no lease, and short heartbeats, so that a revocation is noticed soon.
        let options = Options {
            lease_ttl: ms(15_000),
            heartbeat: ms(300),
            guard_ttl: ms(15_000),
            guard_heartbeat: ms(300),
            reconcile: ms(200),
            idle_timeout: ms(600_000),
            session_lease_ttl: ms(600_000),
            ..Options::new([0, 1].into(), dir.path().join("hls"), Source::Pattern)
        };
        Self { log: StoreSessionLog::new(store.clone()), store, options, dir }
    }

    /// Uses ffmpeg with a receiver.
    pub(crate) fn receiver(mut self, template: String) -> Self {
        let recordings = self.dir.path().join("recordings");
        std::fs::create_dir_all(&recordings).unwrap();
        self.options.source = Source::Ffmpeg(Ffmpeg {
            program: "ffmpeg".into(),
            receiver_url: template,
            recordings_dir: Some(recordings),
            profiles: default_profiles(),
        });
        self
    }

    pub(crate) async fn worker(&self) -> Worker {
        self.try_worker().await.unwrap()
    }

    pub(crate) async fn try_worker(&self) -> Result<Worker, tenure_session_worker::WorkerError> {
        Worker::start(self.store.clone(), self.options.clone(), Arc::new(PlainLauncher)).await
    }

    /// Records a start of a channel.
    pub(crate) async fn start(&self, channel: &str, profile: &str) -> SessionId {
        let target = Target::new(Some(channel), None, None).unwrap();
        self.record(session(target, profile)).await
    }

    pub(crate) async fn record(&self, session: Session) -> SessionId {
        assert!(matches!(self.log.create(&session, None).await.unwrap(), CreateOutcome::Created(_)));
        session.id
    }

    pub(crate) async fn request_stop(&self, id: &SessionId) -> bool {
        let stop =
            StopRequest { session: id.clone(), reason: Reason::ClientStop, correlation: None, at: UnixMs(1) };
        self.log.request_stop(&stop).await.unwrap()
    }

    pub(crate) async fn get(&self, id: &SessionId) -> Session {
        self.log.get(id).await.unwrap().unwrap()
    }

    /// Waits for a state. A session that ends in another state fails the test.
    pub(crate) async fn until(&self, id: &SessionId, state: SessionState) -> Session {
        self.until_that(id, &format!("it is {state}"), |session| session.state == state).await
    }

    pub(crate) async fn until_ended(&self, id: &SessionId) -> Session {
        self.until_that(id, "it has ended", |session| session.state.is_terminal()).await
    }

    pub(crate) async fn until_that(
        &self,
        id: &SessionId,
        what: &str,
        wanted: impl Fn(&Session) -> bool,
    ) -> Session {
        let mut last = None;
        let waited = until_async(what, LIMIT, async || {
            let session = self.log.get(id).await.ok().flatten();
            let found = session.as_ref().is_some_and(&wanted);
            let over = session.as_ref().is_some_and(|session| session.state.is_terminal());
            last = session;
            found || over
        });
        waited.await.unwrap();
        let last = last.unwrap();
        assert!(wanted(&last), "waited until {what}: {last:?}");
        last
    }

    pub(crate) async fn status(&self, key: &str) -> Status {
        self.store.inspect(&Key::new(key).unwrap()).await.unwrap()
    }

    pub(crate) async fn holder(&self, key: &str) -> Option<String> {
        let status = self.status(key).await;
        status.holder.filter(|_| status.phase == Phase::Held).map(|holder| holder.to_string())
    }

    /// Revokes a lease.
    pub(crate) async fn revoke(&self, key: &str) {
        let generation = self.status(key).await.generation.unwrap();
        let key = Key::new(key).unwrap();
        let revoke = Revoke { key, generation, delay: None, reason: Default::default() };
        self.store.revoke(revoke).await.unwrap();
    }

    /// Kills the processes that still run for sessions of this fixture.
    pub(crate) fn end_all(&self) {
        for process in std::fs::read_dir("/proc").unwrap().flatten() {
            let here = std::fs::read_link(process.path().join("cwd"));
            let number = process.file_name().to_str().and_then(|name| name.parse().ok());
            if let (Ok(here), Some(pid)) = (here, number.and_then(rustix::process::Pid::from_raw))
                && here.starts_with(&self.options.output_dir)
            {
                let _gone = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }

    pub(crate) fn folder(&self, id: &SessionId) -> PathBuf {
        self.options.output_dir.join(id.as_str())
    }
}

pub(crate) fn session(target: Target, profile: &str) -> Session {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let profile = ProfileId::new(profile).unwrap();
    let secrets = Secrets { current: Secret::new("secret").unwrap(), previous: None };
    let start = StartIntent { target, profile, correlation: None };
    let key = secrets.key(&start);
    let id = SessionId::new(format!("s{number}-{}", std::process::id())).unwrap();
    Session::new(
        id,
        start.target,
        start.profile,
        CorrelationId::new("c").unwrap(),
        key,
        UnixMs(u64::from(number)),
    )
}

/// A program that writes HLS output like ffmpeg, stores its PID and ignores SIGTERM.
pub(crate) fn program_ignoring_sigterm(dir: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = dir.join("ignoring_sigterm");
    let script = r#"#!/bin/sh
[ "$1" = -version ] && exit 0
trap '' TERM
echo $$ > pid
echo x > seg-00001.m4s
printf '#EXTM3U\n#EXTINF:2,\nseg-00001.m4s\n' > index.m3u8.tmp
mv index.m3u8.tmp index.m3u8
while :; do sleep 1; done
"#;
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    program
}
