//! The proxy's faults that happen once.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};

use tenure_testkit::{Direction, Proxy, RedisServer, Reply, RespClient};

use crate::LIMIT;

fn pair() -> (RedisServer, Proxy) {
    let redis = RedisServer::start().unwrap();
    let proxy = Proxy::start(redis.addr()).unwrap();
    (redis, proxy)
}

fn connect(proxy: &Proxy) -> RespClient {
    RespClient::connect_within(proxy.addr(), LIMIT).unwrap()
}

#[test]
fn a_cut_before_the_reply_reaches_the_server_but_not_the_client() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    assert_eq!(client.command(&["INCR", "n"]).unwrap(), Reply::Int(1));
    let passed = proxy.traffic(Direction::ToClient).forwarded;
    proxy.cut_before_reply();
    assert!(client.command(&["INCR", "n"]).is_err());
    assert_eq!(redis.command(&["GET", "n"]).unwrap().text(), Some("2"));
    assert_eq!(proxy.traffic(Direction::ToClient).forwarded, passed);
    assert_eq!(proxy.traps_sprung(), 1);
    assert_eq!(connect(&proxy).command(&["INCR", "n"]).unwrap(), Reply::Int(3));
}

#[test]
fn a_cut_before_the_reply_to_a_chosen_request_lets_others_be_answered() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.cut_before_reply_to("SET");
    assert_eq!(client.command(&["PING"]).unwrap().text(), Some("PONG"));
    assert_eq!(connect(&proxy).command(&["INCR", "n"]).unwrap(), Reply::Int(1));
    assert!(client.command(&["SET", "k", "v"]).is_err());
    assert_eq!(redis.command(&["GET", "k"]).unwrap().text(), Some("v"));
}

#[test]
fn a_cut_before_the_request_keeps_it_from_the_server() {
    let (redis, proxy) = pair();
    let mut client = connect(&proxy);
    client.command(&["PING"]).unwrap();
    proxy.cut_after_bytes(Direction::ToServer, 0);
    assert!(client.command(&["SET", "k", "v"]).is_err());
    assert_eq!(redis.command(&["DBSIZE"]).unwrap(), Reply::Int(0));
}

#[test]
fn a_cut_after_bytes_delivers_exactly_those_to_the_client() {
    let (_redis, proxy) = pair();
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    proxy.cut_after_bytes(Direction::ToClient, 10);
    client.write_all(b"PING\r\nPING\r\n").unwrap();
    let mut answers = String::new();
    client.read_to_string(&mut answers).unwrap();
    assert_eq!(answers, "+PONG\r\n+PO");
}

#[test]
fn a_cut_after_bytes_delivers_exactly_those_to_the_server_and_resets_the_client() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = Proxy::start(server.local_addr().unwrap()).unwrap();
    proxy.cut_after_bytes(Direction::ToServer, 100_000);
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    let (mut served, _) = server.accept().unwrap();
    let reading = std::thread::spawn(move || {
        let mut all = Vec::new();
        served.read_to_end(&mut all).map(|_| all.len())
    });
    // The reset may come while this still writes, and then writing fails.
    let _ = client.write_all(&vec![b'x'; 200_000]);
    assert_eq!(reading.join().unwrap().unwrap(), 100_000);
    assert!(client.read(&mut [0]).is_err());
}

#[test]
fn bytes_are_counted_over_connections() {
    let (_redis, proxy) = pair();
    proxy.cut_after_bytes(Direction::ToClient, 14);
    assert!(connect(&proxy).command(&["PING"]).is_ok());
    let mut last = connect(&proxy);
    assert!(last.command(&["PING"]).is_ok());
    assert!(last.command(&["PING"]).is_err());
    assert!(connect(&proxy).command(&["PING"]).is_ok());
}

#[test]
fn a_disarmed_trap_lets_everything_pass() {
    let (_redis, proxy) = pair();
    let mut client = connect(&proxy);
    proxy.cut_before_reply();
    proxy.cut_after_bytes(Direction::ToServer, 0);
    proxy.disarm();
    assert_eq!(client.command(&["PING"]).unwrap().text(), Some("PONG"));
    assert_eq!(proxy.traps_sprung(), 0);
}

#[test]
fn a_half_closed_connection_still_springs_the_trap() {
    let (redis, proxy) = pair();
    let mut client = TcpStream::connect(proxy.addr()).unwrap();
    proxy.cut_before_reply();
    client.write_all(b"SET k v\r\n").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert!(client.read(&mut [0]).is_err());
    assert_eq!(redis.command(&["DBSIZE"]).unwrap(), Reply::Int(1));
}
