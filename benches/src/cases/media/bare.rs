//! The peer: a process that copies each stream and each datagram to all other sessions.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Result;
use parking_lot::Mutex;
use tenure_lease::Clock as _;
use tenure_meet_wire::transport::certificate::Pair;
use tenure_meet_wire::transport::quic;
use tenure_meet_wire::transport::{Listener as _, ReceiveLimits, RecvStream, Session};
use tenure_store::BootClock;
use tokio::task::JoinSet;

use super::handler::TIMING;
use crate::report;

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const READ: usize = 64 * 1024;

type Sessions = Arc<Mutex<Vec<Arc<dyn Session>>>>;

/// Serves until standard input is closed.
pub(crate) fn serve(runtime: &tokio::runtime::Runtime) -> Result<()> {
    let pair = Pair::new(&["127.0.0.1".to_owned()], BootClock.wall())?;
    let (der, key) = (pair.current().der()?, pair.current().private_key()?);
    let _inside = runtime.enter();
    let listener = quic::Listener::bind(ANY, vec![der], key, Arc::new(BootClock), TIMING)?;
    let hash: String = pair.current().sha256()?.iter().map(|byte| format!("{byte:02x}")).collect();
    report::line(&format!("ready https://{}/wt/mh {hash}", listener.address()?));
    runtime.spawn(async move {
        let (sessions, mut tasks) = (Sessions::default(), JoinSet::new());
        while let Some(offer) = listener.offer().await {
            let sessions = sessions.clone();
            tasks.spawn(async move {
                let Ok(session) = offer.accept().await else { return };
                session.set_receive_limits(ReceiveLimits::MEDIA);
                sessions.lock().push(session.clone());
                copy(&sessions, &session).await;
                sessions.lock().retain(|other| !Arc::ptr_eq(other, &session));
            });
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn others(sessions: &Sessions, own: &Arc<dyn Session>) -> Vec<Arc<dyn Session>> {
    sessions.lock().iter().filter(|other| !Arc::ptr_eq(other, own)).cloned().collect()
}

async fn copy(sessions: &Sessions, own: &Arc<dyn Session>) {
    let mut streams = JoinSet::new();
    loop {
        tokio::select! {
            stream = own.accept_uni() => match stream {
                Ok(stream) => drop(streams.spawn(copy_stream(others(sessions, own), stream))),
                Err(_) => return,
            },
            datagram = own.receive_datagram() => match datagram {
                Ok(datagram) => for other in others(sessions, own) {
                    let _lost = other.send_datagram(datagram.clone());
                },
                Err(_) => return,
            },
            Some(_) = streams.join_next() => {}
        }
    }
}

async fn copy_stream(to: Vec<Arc<dyn Session>>, mut from: Box<dyn RecvStream>) {
    let mut copies = Vec::with_capacity(to.len());
    for session in to {
        if let Ok(copy) = session.open_uni().await {
            copies.push(copy);
        }
    }
    while let Ok(Some(bytes)) = from.receive(READ).await {
        for copy in &mut copies {
            let _gone = copy.send(bytes.clone()).await;
        }
    }
    copies.iter_mut().for_each(|copy| copy.finish());
}
