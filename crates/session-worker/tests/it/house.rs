//! A house: a store, a folder, workers, and people who want to watch.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use lease::{Key, Phase, Revoke, Status, Store};
use session::{
    CorrelationId, Created, ProfileId, Reason, Secret, Secrets, Session, SessionId, SessionLog, Start, State,
    StopRequest, Target, UnixMs,
};
use session_worker::{Ffmpeg, Log, Options, Source, Worker, default_profiles};
use tempfile::TempDir;
use testkit::RedisServer;
use testkit::wait::until_async;

use crate::launcher::Plain;

/// Long enough for a machine that does much else.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);
pub(crate) const GUARD: &str = "system:orchestrator:guard_lock";

pub(crate) struct House {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) log: Log,
    pub(crate) options: Options,
    pub(crate) dir: TempDir,
}

impl House {
    pub(crate) async fn memory() -> Self {
        Self::on("memory:").await
    }

    /// On a Redis that is known to be new, so that nobody can hold anything in it.
    pub(crate) async fn redis(server: &RedisServer) -> Self {
        Self::on(&format!("{}?quarantine_ms=0&max_ttl_ms=600000", server.url())).await
    }

    pub(crate) async fn on(url: &str) -> Self {
        let store: Arc<dyn Store> = lease_store::Store::open(url).await.unwrap().into();
        let dir = tempfile::tempdir().unwrap();
        let ms = Duration::from_millis;
        // Long TTLs and short heartbeats: a slow machine loses nothing, and what is lost shows soon.
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
        Self { log: Log::new(store.clone()), store, options, dir }
    }

    /// The same house with a receiver.
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

    pub(crate) async fn try_worker(&self) -> Result<Worker, session_worker::Fatal> {
        Worker::start(self.store.clone(), self.options.clone(), Arc::new(Plain)).await
    }

    /// Somebody wants to watch a channel.
    pub(crate) async fn wish(&self, channel: &str, profile: &str) -> SessionId {
        let target = Target::new(Some(channel), None, None).unwrap();
        self.record(session(target, profile)).await
    }

    pub(crate) async fn record(&self, session: Session) -> SessionId {
        assert!(matches!(self.log.create(&session, None).await.unwrap(), Created::Created(_)));
        session.id
    }

    pub(crate) async fn ask_stop(&self, id: &SessionId) -> bool {
        let stop =
            StopRequest { session: id.clone(), reason: Reason::ClientStop, correlation: None, at: UnixMs(1) };
        self.log.ask_stop(&stop).await.unwrap()
    }

    pub(crate) async fn get(&self, id: &SessionId) -> Session {
        self.log.get(id).await.unwrap().unwrap()
    }

    /// Waits for a state; a session that ends in another one fails the test with its reason.
    pub(crate) async fn until(&self, id: &SessionId, state: State) -> Session {
        self.until_that(id, &format!("it is {state}"), |session| session.state == state).await
    }

    pub(crate) async fn until_over(&self, id: &SessionId) -> Session {
        self.until_that(id, "it is over", |session| session.state.is_terminal()).await
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

    /// An operator takes a lease away.
    pub(crate) async fn revoke(&self, key: &str) {
        let generation = self.status(key).await.generation.unwrap();
        let key = Key::new(key).unwrap();
        let revoke = Revoke { key, generation, delay: None, reason: Default::default() };
        self.store.revoke(revoke).await.unwrap();
    }

    /// Ends what still runs for sessions of this house.
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
    let start = Start { target, profile, correlation: None };
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

/// A program that shows a picture as ffmpeg would, writes its number down, and does not listen when it is asked to stop.
pub(crate) fn stubborn_program(dir: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let program = dir.join("stubborn");
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
