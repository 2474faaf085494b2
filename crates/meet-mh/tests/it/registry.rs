//! What a handler tells GC.

use std::sync::Arc;

use meet_mh::{Attendance, Front, PATH};
use meet_rpc::node::{Duty, Listing, Member, Report};
use meet_rpc::{Gatekeeper, Part};
use meet_wire::internal::media_handler_registry_service_server::{
    MediaHandlerRegistryService, MediaHandlerRegistryServiceServer,
};
use meet_wire::internal::{
    HealthStatus, MhLoadReport, MhLoadReportResponse, RegisterMhRequest, RegisterMhResponse,
};
use meet_wire::transport::{Connect, Paths, memory};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::house::{House, house};

#[derive(Clone, Default)]
struct Gc {
    registered: Arc<Mutex<Vec<RegisterMhRequest>>>,
    reported: Arc<Mutex<Vec<MhLoadReport>>>,
}

#[tonic::async_trait]
impl MediaHandlerRegistryService for Gc {
    async fn register_mh(
        &self,
        request: Request<RegisterMhRequest>,
    ) -> Result<Response<RegisterMhResponse>, Status> {
        self.registered.lock().push(request.into_inner());
        let answer =
            RegisterMhResponse { accepted: true, message: String::new(), load_report_interval_ms: 2_000 };
        Ok(Response::new(answer))
    }

    async fn send_load_report(
        &self,
        request: Request<MhLoadReport>,
    ) -> Result<Response<MhLoadReportResponse>, Status> {
        self.reported.lock().push(request.into_inner());
        Ok(Response::new(MhLoadReportResponse {}))
    }
}

fn attendance(house: &House) -> (Gc, Attendance, watch::Sender<Vec<Vec<u8>>>) {
    let gc = Gc::default();
    let routes = Routes::new(MediaHandlerRegistryServiceServer::new(gc.clone()));
    house.lines.offer("gc", Gatekeeper::new(Part::Gc, house.keyring.clone()).guard(routes));
    let (certificates, seen) = watch::channel(vec![vec![3; 32]]);
    let listing = Listing {
        region: "here".to_owned(),
        zone: "b".to_owned(),
        grpc_endpoint: "inproc:mh-1".to_owned(),
        webtransport_endpoint: "https://127.0.0.1:1/wt/mh".to_owned(),
        certificates: seen,
        version: "1".to_owned(),
    };
    let gc_endpoint = "inproc:gc".to_owned();
    (gc, Attendance { handler: house.handler.clone(), listing, gc_endpoint }, certificates)
}

#[tokio::test(start_paused = true)]
async fn a_handler_registers_with_its_card_and_takes_the_interval_that_it_is_told() {
    let house = house(10);
    let (gc, member, _certificates) = attendance(&house);
    let duty = member.register(&member.card()).await.unwrap();
    assert_eq!(duty, Duty { fast: std::time::Duration::from_secs(2), full: None });
    let told = gc.registered.lock()[0].clone();
    assert_eq!((told.handler_id.as_str(), told.zone.as_str(), told.max_streams), ("mh-1", "b", 10));
    assert_eq!(told.certificate_sha256.len(), 1);
    member.report(Report::Fast).await.unwrap();
    let told = gc.reported.lock()[0].clone();
    assert_eq!((told.mh_id.as_str(), told.current_streams, told.max_streams), ("mh-1", 0, 10));
    assert_eq!((told.cpu_percent, told.memory_percent), (5, 6));
    assert_eq!(told.health_status(), HealthStatus::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_tenth_of_its_streams_more_is_told_at_once_and_less_than_that_is_not() {
    let house = house(20);
    let (_gc, member, _certificates) = attendance(&house);
    let (listener, dialer) = memory::listener();
    let mut paths = Paths::new(Arc::new(listener));
    let way = Arc::new(paths.way(PATH));
    let mut tasks = JoinSet::new();
    tasks.spawn(paths.run());
    tasks.spawn(Front::new(house.handler.clone()).serve(way, CancellationToken::new()));
    let dial = async || dialer.dial(Connect { path: PATH.to_owned(), ..Connect::default() }).await.unwrap();
    let _one = dial().await;
    tokio::select! {
        biased;
        () = member.stirred() => panic!("one in twenty is no change"),
        () = house.pass(std::time::Duration::from_millis(100)) => {}
    }
    let _two = dial().await;
    member.stirred().await;
    member.report(Report::Fast).await.unwrap();
    let _three = dial().await;
    let _four = dial().await;
    member.stirred().await;
}
