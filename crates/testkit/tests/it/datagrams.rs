//! What the proxy of datagrams does to clients.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use tenure_testkit::{UdpProxy, wait};

use crate::LIMIT;

/// A server that says everything back; it ends with the word `end`.
struct Echo {
    addr: SocketAddr,
    thread: Option<thread::JoinHandle<()>>,
}

impl Echo {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        let thread = thread::spawn(move || {
            let mut packet = [0; 2048];
            loop {
                // A client that is gone shows as an error of the next call; the others are still there.
                let Ok((len, from)) = socket.recv_from(&mut packet) else { continue };
                if &packet[..len] == b"end" {
                    return;
                }
                let _ = socket.send_to(&packet[..len], from);
            }
        });
        Self { addr, thread: Some(thread) }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        let _ = UdpSocket::bind("127.0.0.1:0").unwrap().send_to(b"end", self.addr);
        let _ = self.thread.take().unwrap().join();
    }
}

fn client(proxy: &UdpProxy) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(proxy.addr()).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    socket
}

/// Whether a word comes back; it is said until it does, for datagrams are lost on loopback too when a machine is busy.
fn echoes(client: &UdpSocket, word: &str) {
    let mut packet = [0; 2048];
    wait::until("the word comes back", LIMIT, || {
        let _ = client.send(word.as_bytes());
        client.recv(&mut packet).is_ok_and(|len| &packet[..len] == word.as_bytes())
    })
    .unwrap();
}

#[test]
fn two_clients_are_told_apart_and_one_is_lost_without_a_word() {
    let echo = Echo::start();
    let proxy = UdpProxy::start(echo.addr).unwrap();
    let (ada, bob) = (client(&proxy), client(&proxy));
    echoes(&ada, "a");
    echoes(&bob, "b");
    assert_eq!(proxy.clients(), [ada.local_addr().unwrap(), bob.local_addr().unwrap()]);
    proxy.lose(bob.local_addr().unwrap());
    proxy.lose_new(true);
    let eve = client(&proxy);
    let before = proxy.lost();
    bob.send(b"lost").unwrap();
    eve.send(b"lost").unwrap();
    wait::until("both are lost", LIMIT, || proxy.lost() >= before + 2).unwrap();
    echoes(&ada, "still here");
    let mut packet = [0; 64];
    // Late answers to what was said before may still be there; the word that was lost is not.
    while let Ok(len) = bob.recv(&mut packet) {
        assert_ne!(&packet[..len], b"lost");
    }
    assert!(eve.recv(&mut packet).is_err());
    proxy.pass();
    echoes(&bob, "again");
    echoes(&eve, "me too");
    // By a rule: here by whose port it is, also for those that come later.
    let (late, other) = (client(&proxy), client(&proxy));
    let named = [bob.local_addr().unwrap(), late.local_addr().unwrap()];
    proxy.lose_those(move |client| named.contains(&client));
    let before = proxy.lost();
    bob.send(b"lost").unwrap();
    late.send(b"lost").unwrap();
    wait::until("both are lost", LIMIT, || proxy.lost() >= before + 2).unwrap();
    echoes(&eve, "still here");
    echoes(&other, "here too");
    proxy.pass();
    echoes(&late, "at last");
}

#[test]
fn a_port_is_known_by_the_process_that_has_it() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let group = nix::unistd::getpgrp().as_raw() as u32;
    assert!(tenure_testkit::has_udp_port(group, port));
    assert!(!tenure_testkit::has_udp_port(1, port));
    drop(socket);
    assert!(!tenure_testkit::has_udp_port(group, port));
}

#[test]
fn a_refused_client_is_told_so_and_the_others_stay() {
    let echo = Echo::start();
    let proxy = UdpProxy::start(echo.addr).unwrap();
    let (ada, bob) = (client(&proxy), client(&proxy));
    echoes(&ada, "a");
    echoes(&bob, "b");
    proxy.refuse(bob.local_addr().unwrap()).unwrap();
    let mut packet = [0; 64];
    wait::until("the kernel refuses", LIMIT, || {
        let _ = bob.send(b"anybody?");
        matches!(bob.recv(&mut packet), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
    })
    .unwrap();
    echoes(&ada, "still here");
    let late = client(&proxy);
    wait::until("new ones are refused too", LIMIT, || {
        let _ = late.send(b"anybody?");
        matches!(late.recv(&mut packet), Err(error) if error.kind() == ErrorKind::ConnectionRefused)
    })
    .unwrap();
    proxy.accept().unwrap();
    echoes(&bob, "back");
    echoes(&late, "in");
    assert!(proxy.forwarded() > 0);
}

#[test]
fn an_impaired_proxy_loses_its_share_and_delays_the_rest() {
    let echo = Echo::start();
    let proxy = UdpProxy::start(echo.addr).unwrap();
    let client = client(&proxy);
    echoes(&client, "clear");
    proxy.impair(200, Duration::ZERO);
    let counted = || proxy.lost() + proxy.forwarded();
    let (lost, before) = (proxy.lost(), counted());
    for _ in 0..200 {
        let seen = counted();
        client.send(b"x").unwrap();
        wait::until("the packet is lost or forwarded", LIMIT, || counted() > seen).unwrap();
    }
    let (lost, all) = (proxy.lost() - lost, counted() - before);
    assert!((all / 10..=all * 3 / 10).contains(&lost), "{lost} of {all}");
    proxy.impair(0, Duration::from_millis(60));
    let mut packet = [0; 16];
    while client.recv(&mut packet).is_ok() {}
    client.send(b"late").unwrap();
    assert!(client.recv(&mut packet).is_err(), "the first 20 ms are too early");
    proxy.impair(0, Duration::ZERO);
    echoes(&client, "clear again");
}
