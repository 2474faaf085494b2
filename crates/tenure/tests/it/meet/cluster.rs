//! All parts as separate processes on one Redis.

use tenure_lease::{Key, Records as _};
use tenure_store::Redis;
use tenure_testkit::{Proxy, RedisServer, wait};

use crate::harness::{LIMIT, known_new};
use crate::meet::installation::{Installation, MC_SECRET, MH_SECRET, ServerProcess, StartOptions};

/// A controller behind its own proxy to the store.
pub(crate) struct Mc {
    pub(crate) id: &'static str,
    pub(crate) server: ServerProcess,
    pub(crate) store: Proxy,
}

pub(crate) struct TestCluster {
    pub(crate) gc: ServerProcess,
    pub(crate) mcs: Vec<Mc>,
    _mh: ServerProcess,
    pub(crate) installation: Installation,
}

impl TestCluster {
    /// Starts GC, a handler and these controllers with this log filter, and waits until they are ready.
    pub(crate) async fn start(ids: &[&'static str], log: &str, variables: &[(&str, &str)]) -> Self {
        let installation = Installation::on(RedisServer::start().unwrap());
        let redis = installation.redis.as_ref().unwrap();
        let mut given = variables.to_vec();
        given.push(("TENURE_MEET__GRPC_BIND_ADDRESS", "127.0.0.1:0"));
        given.push(("MC_WEBTRANSPORT_BIND_ADDRESS", "127.0.0.1:0"));
        let begin = StartOptions { folder: "gc", store: Some(redis.url()), log: Some(log) };
        let gc = installation.start_as(begin, &["gc"], &given);
        let (ac, gc_url) = (gc.address.clone(), gc.grpc.clone().unwrap());
        let part = |folder: &str, role: &str, store: String, client: (&str, &str)| {
            let own = [
                ("MC_ID", folder),
                ("AC_ENDPOINT", ac.as_str()),
                ("GC_GRPC_URL", gc_url.as_str()),
                ("MC_CLIENT_ID", client.0),
                ("MC_CLIENT_SECRET", client.1),
            ];
            let begin = StartOptions { folder, store: Some(store), log: Some(log) };
            installation.start_as(begin, &[role], &[&given[..], &own[..]].concat())
        };
        let mh = part("mh-one", "mh", redis.url(), ("media-handler", MH_SECRET));
        let controller = |id: &'static str| {
            let store = Proxy::start(redis.addr()).unwrap();
            let server = part(id, "mc", store.url_for_redis(), ("meeting-controller", MC_SECRET));
            Mc { id, server, store }
        };
        let mcs: Vec<Mc> = ids.iter().map(|id| controller(id)).collect();
        for mc in &mcs {
            let ready = async || mc.server.ask("GET", "/ready", None, None).await.0 == 200;
            wait::until_async("the controller is ready", LIMIT, ready).await.unwrap();
        }
        Self { gc, mcs, _mh: mh, installation }
    }

    /// The value of a key of a meeting in Redis.
    pub(crate) fn kept(&self, meeting: &str, part: &str) -> String {
        let redis = self.installation.redis.as_ref().unwrap();
        let reply = redis.command(&["GET", &format!("meeting:{meeting}:{part}")]).unwrap();
        reply.text().unwrap().to_owned()
    }

    /// The numbers of the persisted events of a meeting.
    pub(crate) async fn written(&self, meeting: &str) -> Vec<u64> {
        let url = self.installation.redis.as_ref().unwrap().url();
        let store = Redis::open(&known_new(&url)).await.unwrap();
        let log = Key::new(format!("meeting:{meeting}:log")).unwrap();
        let entries = store.read_log(&log, 0, 1_000).await.unwrap();
        entries.iter().map(|entry| entry.seq).collect()
    }
}
