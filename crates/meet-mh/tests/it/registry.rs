//! The registration and the load reports at GC.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tenure_meet_mh::HandlerRegistration;
use tenure_meet_rpc::node::{Listing, Member, Report, ReportIntervals};
use tenure_meet_rpc::{Gatekeeper, ServiceRole};
use tenure_meet_wire::internal::media_handler_registry_service_server::{
    MediaHandlerRegistryService, MediaHandlerRegistryServiceServer,
};
use tenure_meet_wire::internal::{
    HealthStatus, MhLoadReport, MhLoadReportResponse, RegisterMhRequest, RegisterMhResponse,
};
use tokio::sync::watch;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

use crate::client::{video, watch};
use crate::harness::{Harness, harness, id};

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

fn attendance(harness: &Harness) -> (Gc, HandlerRegistration, watch::Sender<Vec<Vec<u8>>>) {
    let gc = Gc::default();
    let routes = Routes::new(MediaHandlerRegistryServiceServer::new(gc.clone()));
    harness.channels.offer("gc", Gatekeeper::new(ServiceRole::Gc, harness.keyring.clone()).guard(routes));
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
    (gc, HandlerRegistration { handler: harness.handler.clone(), listing, gc_endpoint }, certificates)
}

#[tokio::test(start_paused = true)]
async fn a_handler_registers_and_uses_the_report_interval_of_the_answer() {
    let harness = harness(10);
    let (gc, member, _certificates) = attendance(&harness);
    let intervals = member.register(&member.node_info()).await.unwrap();
    assert_eq!(intervals, ReportIntervals { fast: Duration::from_secs(2), full: None });
    let sent = gc.registered.lock()[0].clone();
    assert_eq!((sent.handler_id.as_str(), sent.zone.as_str(), sent.max_streams), ("mh-1", "b", 10));
    assert_eq!(sent.certificate_sha256.len(), 1);
    member.report(Report::Fast).await.unwrap();
    let sent = gc.reported.lock()[0].clone();
    assert_eq!((sent.mh_id.as_str(), sent.current_streams, sent.max_streams), ("mh-1", 0, 10));
    assert_eq!((sent.cpu_percent, sent.memory_percent), (5, 6));
    assert_eq!(sent.health_status(), HealthStatus::Healthy);
}

#[tokio::test(start_paused = true)]
async fn a_load_change_of_ten_percent_is_reported_at_once() {
    let harness = harness(20);
    let (_gc, member, _certificates) = attendance(&harness);
    harness.open(5).await;
    let mut publisher = harness.join(1).await;
    publisher.publish(video(1, 1)).await;
    tokio::select! {
        biased;
        () = member.report_due() => panic!("five percent is not a change"),
        () = harness.pass(Duration::from_millis(200)) => {}
    }
    let mut viewers = Vec::new();
    for n in 2..=3 {
        let mut viewer = harness.join(n).await;
        viewer.subscribe(watch(id(1))).await;
        viewers.push(viewer);
    }
    member.report_due().await;
    assert_eq!(harness.handler.stream_count(), 3);
}

#[tokio::test(start_paused = true)]
async fn bandwidth_and_loss_are_measured() {
    let harness = harness(20);
    let (gc, member, _certificates) = attendance(&harness);
    harness.open(2).await;
    let (mut publisher, mut viewer) = (harness.join(1).await, harness.join(2).await);
    publisher.publish(video(1, 3)).await;
    viewer.subscribe(watch(id(1))).await;
    member.report(Report::Fast).await.unwrap();
    let mut group = publisher.group(1, 2, 1).await;
    for _ in 0..10 {
        group.frame(0, &[0; 5_000]).await.unwrap();
        harness.pass(Duration::from_millis(100)).await;
    }
    member.report(Report::Fast).await.unwrap();
    let sent = gc.reported.lock()[1].clone();
    // 400 kbit/s of 1 Mbit/s.
    assert_eq!((sent.bandwidth_ingress_percent, sent.bandwidth_egress_percent), (40, 40));
    assert_eq!((sent.packet_loss_permille, sent.current_streams), (0, 2));
}
