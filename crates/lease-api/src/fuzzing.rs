//! What the fuzz targets need to see.
#![expect(clippy::expect_used, reason = "a body ends in a panic when a promise is broken")]

use std::time::Duration;

use lease::{
    Acquired, Capabilities, Claim, Committed, Error, Event, Fence, Generation, Holder, Key, Lease, LogEntry,
    Mode, Op, Page, Proof, Query, Record, Reign, Release, Renewal, Result, Revoke, Revoked, Status, Token,
    Transfer, Transferred, Ttl, Verified, Watched, Wipe, Wiped,
};
use prost::Message;

use crate::wire;

/// The address of a server, as HTTP takes it.
pub fn address(url: &str) -> Result<String> {
    crate::client::fuzzing::address(url)
}

/// What was read is written as it was read, and read again as the same.
fn there_and_back<W, D>(data: &[u8], write: impl Fn(D) -> W)
where
    W: Message + Default + PartialEq + Clone,
    D: TryFrom<W>,
    D::Error: std::fmt::Debug,
{
    let Ok(message) = W::decode(data) else { return };
    let Ok(domain) = D::try_from(message) else { return };
    let sent = write(domain);
    let bytes = sent.encode_to_vec();
    let arrived = W::decode(&bytes[..]).expect("what we write is a message");
    assert!(arrived == sent, "a message changed on its way");
    let again = D::try_from(arrived).expect("what was taken once is taken again");
    assert!(write(again) == sent, "what was read is not what was meant");
}

fn event(watched: Event) -> wire::Event {
    match wire::watch_response::What::from(Watched::Event(watched)) {
        wire::watch_response::What::Event(event) => event,
        other => panic!("an event became {other:?}"),
    }
}

/// The first byte says which message the rest is.
pub fn messages(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    match which % 24 {
        0 => there_and_back::<wire::AcquireRequest, Claim>(data, Into::into),
        1 => there_and_back::<wire::Renewal, Renewal>(data, |item| (&item).into()),
        2 => there_and_back::<wire::ReleaseRequest, Release>(data, Into::into),
        3 => there_and_back::<wire::TransferRequest, Transfer>(data, Into::into),
        4 => there_and_back::<wire::RevokeRequest, Revoke>(data, Into::into),
        5 => there_and_back::<wire::WipeRequest, Wipe>(data, Into::into),
        6 => there_and_back::<wire::AcquireResponse, Acquired>(data, Into::into),
        7 => there_and_back::<wire::Lease, Lease>(data, Into::into),
        8 => there_and_back::<wire::TransferResponse, Transferred>(data, Into::into),
        9 => there_and_back::<wire::RevokeResponse, Revoked>(data, Into::into),
        10 => there_and_back::<wire::VerifyResponse, Verified>(data, Into::into),
        11 => there_and_back::<wire::WipeResponse, Wiped>(data, Into::into),
        12 => there_and_back::<wire::Fence, Fence>(data, |fence| (&fence).into()),
        13 => there_and_back::<wire::Op, Op>(data, |op| (&op).into()),
        14 => there_and_back::<wire::CommitResponse, Committed>(data, Into::into),
        15 => there_and_back::<wire::Record, Record>(data, Into::into),
        16 => there_and_back::<wire::ScanResponse, Page<Record>>(data, Into::into),
        17 => there_and_back::<wire::LogEntry, LogEntry>(data, Into::into),
        18 => there_and_back::<wire::CapabilitiesResponse, Capabilities>(data, Into::into),
        19 => there_and_back::<wire::Status, Status>(data, Into::into),
        20 => there_and_back::<wire::Query, Query>(data, |query| (&query).into()),
        21 => there_and_back::<wire::ListResponse, Page<Status>>(data, Into::into),
        22 => there_and_back::<wire::Reign, Reign>(data, Into::into),
        _ => there_and_back::<wire::Event, Event>(data, event),
    }
    if let Ok(problem) = wire::Problem::decode(data) {
        assert!(!Error::from(problem).to_string().is_empty());
    }
}

/// One message of each kind that has a request, as the client sends it.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let key = Key::new("tuner/3").expect("a key");
    let holder = Holder::new("node-1").expect("a holder");
    let token = Token::parse("0123456789abcdef012345").expect("a token");
    let generation = Generation::new(42).expect("a generation");
    let ttl = Ttl::MAX;
    let claim = Claim::new(key.clone(), holder.clone(), token.clone(), ttl).waiting(Duration::from_secs(1));
    let lease = Lease { key: key.clone(), holder: holder.clone(), generation, ttl };
    let granted = Acquired::Granted(lease::Grant { lease: lease.clone(), parked: true });
    let fence = Fence { key: key.clone(), token: token.clone(), generation, mode: Mode::Monotonic };
    let put = Op::PutIfAbsent { key: key.clone(), value: b"value".as_slice().into(), ttl: Some(ttl) };
    let gate = Proof { key: key.clone(), token: token.clone(), generation };
    let renewal = Renewal { key: key.clone(), token: token.clone(), generation, ttl: Some(ttl) };
    let transfer = Transfer { key: key.clone(), token: token.clone(), generation, to: holder };
    let revoke = Revoke {
        key: key.clone(),
        generation,
        delay: Some(Duration::from_secs(1)),
        reason: lease::Motive::default(),
    };
    let wipe = Wipe { prefix: lease::Prefix::default(), gate };
    let sent = [
        (0, wire::AcquireRequest::from(claim).encode_to_vec()),
        (1, wire::Renewal::from(&renewal).encode_to_vec()),
        (2, wire::ReleaseRequest::from(Release::new(key, token)).encode_to_vec()),
        (3, wire::TransferRequest::from(transfer).encode_to_vec()),
        (4, wire::RevokeRequest::from(revoke).encode_to_vec()),
        (5, wire::WipeRequest::from(wipe).encode_to_vec()),
        (6, wire::AcquireResponse::from(granted).encode_to_vec()),
        (7, wire::Lease::from(lease).encode_to_vec()),
        (12, wire::Fence::from(&fence).encode_to_vec()),
        (13, wire::Op::from(&put).encode_to_vec()),
    ];
    sent.into_iter().map(|(which, bytes)| [&[which], &bytes[..]].concat()).collect()
}
