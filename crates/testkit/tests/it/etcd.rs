//! Real etcd.

use std::net::TcpStream;

use tenure_testkit::{EtcdServer, SmallDisk, wait};

use crate::LIMIT;

#[test]
fn etcd_is_healthy_when_it_has_started_and_again_after_a_restart() {
    let etcd = EtcdServer::start().unwrap();
    assert!(etcd.is_healthy());
    assert_eq!(etcd.endpoint(), format!("http://{}", etcd.addr()));
    let first = etcd.pid();
    etcd.kill9().unwrap();
    assert!(TcpStream::connect(etcd.addr()).is_err());
    etcd.restart().unwrap();
    assert!(etcd.is_healthy());
    assert_ne!(etcd.pid(), first);
}

#[test]
fn etcd_keeps_its_data_where_it_is_told() {
    let disk = tempfile::tempdir().unwrap();
    let etcd = EtcdServer::builder().dir(disk.path()).flag("log-level", "warn").start().unwrap();
    assert!(etcd.dir().starts_with(disk.path()));
    assert!(etcd.dir().join("member").is_dir());
}

#[tokio::test]
async fn a_resumed_etcd_is_healthy_again() {
    let etcd = EtcdServer::start().unwrap();
    etcd.pause().unwrap();
    etcd.resume().unwrap();
    wait::until_async("etcd is healthy", LIMIT, async || etcd.is_healthy()).await.unwrap();
}

#[test]
fn etcd_that_cannot_start_is_reported_with_its_log() {
    let disk = SmallDisk::mount(64 * 1024).unwrap();
    let error = EtcdServer::builder().dir(disk.path()).start().err().unwrap().to_string();
    assert!(error.contains("no space left on device"), "{error}");
}
