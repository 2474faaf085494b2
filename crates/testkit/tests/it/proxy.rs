//! What the proxy does to connections until it is set otherwise.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use tenure_testkit::{Direction, Mode, Proxy, RedisServer, Reply, RespClient, wait};

use crate::{LIMIT, MOMENT};

fn pair() -> (RedisServer, Proxy) {
    let redis = RedisServer::start().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    (redis, proxy)
}

fn connect(proxy: &Proxy) -> RespClient {
    let mut client = RespClient::connect_within(proxy.addr(), LIMIT).unwrap();
    assert_eq!(client.command(&["PING"]).unwrap().text(), Some("PONG"));
    client
}

fn no_answer(client: &mut RespClient) {
    client.set_limit(MOMENT).unwrap();
    assert!(client.receive().is_err());
    client.set_limit(LIMIT).unwrap();
}

fn dbsize(redis: &RedisServer) -> Option<i64> {
    redis.command(&["DBSIZE"]).unwrap().int()
}

#[test]
fn a_proxy_passes_what_it_is_given_and_counts_it() {
    let (_redis, proxy) = pair();
    assert_eq!(proxy.url_for_redis(), format!("redis://{}", proxy.addr()));
    let mut client = connect(&proxy);
    let value = "x".repeat(1_000_000);
    assert_eq!(client.command(&["SET", "k", &value]).unwrap().text(), Some("OK"));
    assert_eq!(client.command(&["GET", "k"]).unwrap().text(), Some(value.as_str()));
    assert_eq!((proxy.connections(), proxy.open_connections()), (1, 1));
    for direction in [Direction::ToServer, Direction::ToClient] {
        let traffic = proxy.traffic(direction);
        assert!(traffic.forwarded > 1_000_000, "{traffic:?}");
        assert_eq!((traffic.received, traffic.discarded), (traffic.forwarded, 0));
    }
    drop(client);
    wait::until("the connection is closed", LIMIT, || proxy.open_connections() == 0).unwrap();
}

#[test]
fn a_client_that_stops_sending_still_gets_its_answers() {
    let (_redis, proxy) = pair();
    let mut stream = TcpStream::connect(proxy.addr()).unwrap();
    stream.write_all(b"PING\r\nQUIT\r\n").unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "+PONG\r\n+OK\r\n");
}

#[test]
fn a_dropped_request_never_reaches_the_server() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.set(Direction::ToServer, Mode::Drop);
    client.send(&["SET", "k", "v"]).unwrap();
    wait::until("it is dropped", LIMIT, || proxy.traffic(Direction::ToServer).discarded > 0).unwrap();
    assert_eq!(dbsize(&redis), Some(0));
}

#[test]
fn a_dropped_reply_leaves_the_request_carried_out() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.set(Direction::ToClient, Mode::Drop);
    client.send(&["SET", "k", "v"]).unwrap();
    wait::until("it is dropped", LIMIT, || proxy.traffic(Direction::ToClient).discarded > 0).unwrap();
    assert_eq!(dbsize(&redis), Some(1));
    no_answer(&mut client);
}

#[test]
fn a_black_hole_swallows_the_close_of_a_client_until_it_heals() {
    let (redis, proxy) = pair();
    let client = connect(&proxy);
    let clients = || redis.command(&["CLIENT", "LIST", "TYPE", "normal"]).unwrap();
    let count = || clients().text().unwrap().lines().count();
    assert_eq!(count(), 2);
    proxy.set(Direction::ToServer, Mode::Drop);
    drop(client);
    assert_eq!(count(), 2);
    proxy.set(Direction::ToServer, Mode::Pass);
    wait::until("the close arrives", LIMIT, || count() == 1).unwrap();
}

#[test]
fn a_delayed_reply_comes_no_sooner_than_the_delay() {
    let (_redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.set(Direction::ToClient, Mode::Delay(MOMENT));
    let asked = now();
    client.command(&["PING"]).unwrap();
    assert!(asked.elapsed() >= MOMENT);
}

#[expect(clippy::disallowed_methods, reason = "a delay on a real connection is measured in real time")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn what_a_long_delay_holds_back_is_released_by_passing() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.set(Direction::ToServer, Mode::Delay(Duration::from_secs(3600)));
    let before = proxy.traffic(Direction::ToServer).received;
    client.send(&["INCR", "n"]).unwrap();
    wait::until("it is held", LIMIT, || proxy.traffic(Direction::ToServer).received > before).unwrap();
    assert_eq!(dbsize(&redis), Some(0));
    proxy.set(Direction::ToServer, Mode::Pass);
    assert_eq!(client.receive().unwrap(), Reply::Int(1));
}

#[test]
fn what_a_delay_holds_back_is_lost_to_a_black_hole() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.set_both(Mode::Delay(Duration::from_secs(3600)));
    let before = proxy.traffic(Direction::ToServer).received;
    client.send(&["INCR", "n"]).unwrap();
    wait::until("it is held", LIMIT, || proxy.traffic(Direction::ToServer).received > before).unwrap();
    proxy.set_both(Mode::Drop);
    wait::until("it is dropped", LIMIT, || proxy.traffic(Direction::ToServer).discarded > 0).unwrap();
    assert_eq!(dbsize(&redis), Some(0));
}

#[test]
fn a_stalled_direction_pushes_back_until_the_sender_blocks_and_loses_nothing() {
    let (_redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.set(Direction::ToServer, Mode::Stall);
    let before = proxy.traffic(Direction::ToServer);
    client.send(&["INCR", "n"]).unwrap();
    let mut flood = TcpStream::connect(proxy.addr()).unwrap();
    flood.set_write_timeout(Some(MOMENT)).unwrap();
    let blocked = (0..64).find_map(|_| flood.write(&[b' '; 1_000_000]).err()).unwrap();
    assert!(matches!(blocked.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{blocked}");
    assert_eq!(proxy.traffic(Direction::ToServer).forwarded, before.forwarded);
    proxy.set(Direction::ToServer, Mode::Pass);
    assert_eq!(client.receive().unwrap(), Reply::Int(1));
}

#[test]
fn a_cut_resets_every_connection_and_lets_new_ones_in() {
    let (_redis, proxy) = pair();
    let mut clients = [connect(&proxy), connect(&proxy)];
    // Taken by the kernel, perhaps not yet by the proxy: to its owner it is a connection like the others.
    let mut raw = TcpStream::connect(proxy.addr()).unwrap();
    proxy.cut().unwrap();
    assert_eq!(proxy.open_connections(), 0);
    assert_eq!(raw.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    for client in &mut clients {
        assert!(client.command(&["PING"]).is_err());
    }
    connect(&proxy);
}

#[test]
fn a_refusing_proxy_keeps_the_connections_it_has_and_lets_nobody_in_until_it_accepts() {
    let (_redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.refuse().unwrap();
    proxy.refuse().unwrap();
    assert_eq!(TcpStream::connect(proxy.addr()).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    assert_eq!(client.command(&["PING"]).unwrap().text(), Some("PONG"));
    proxy.accept().unwrap();
    proxy.accept().unwrap();
    connect(&proxy);
}

#[test]
fn a_client_is_reset_when_there_is_no_server_behind_the_proxy() {
    let (redis, proxy) = pair();
    redis.kill9().unwrap();
    let mut raw = TcpStream::connect(proxy.addr()).unwrap();
    assert_eq!(raw.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    redis.restart().unwrap();
    connect(&proxy);
}

#[test]
fn replication_through_a_proxy_can_be_cut_off() {
    let (primary, proxy) = pair();
    let replica = RedisServer::builder().replica_of_addr(proxy.addr()).start().unwrap();
    replica.wait_for_sync(LIMIT).unwrap();
    proxy.set_both(Mode::Stall);
    let mut client = primary.client().unwrap();
    client.command(&["SET", "k", "v"]).unwrap();
    assert_eq!(client.command(&["WAIT", "1", "100"]).unwrap(), Reply::Int(0));
    proxy.set_both(Mode::Pass);
    assert_eq!(client.command(&["WAIT", "1", "4000"]).unwrap(), Reply::Int(1));
}

#[tokio::test]
async fn a_proxy_serves_a_test_that_blocks_its_only_thread() {
    let (_redis, proxy) = pair();
    let mut client = connect(&proxy);
    client.command(&["PING"]).unwrap();
    let addr = proxy.addr();
    drop(proxy);
    assert!(client.command(&["PING"]).is_err());
    assert!(TcpStream::connect(addr).is_err());
}
