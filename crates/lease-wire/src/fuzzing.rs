//! What the fuzz targets need to see.
#![expect(clippy::expect_used, reason = "a fuzz target panics when a property does not hold")]

use std::time::Duration;

use prost::Message;
use tenure_lease::{
    Acquired, Announcement, Capabilities, Claim, Committed, Error, Event, Fence, Generation, Holder, Key,
    Lease, LogEntry, Mode, Op, Page, Proof, Query, Record, Reign, Release, Renewal, Revoke, Revoked, Status,
    Token, Transfer, Transferred, Ttl, Verified, Watched, Wipe, Wiped,
};

use crate::proto;

/// Decodes a message, and checks that the domain value survives encoding and decoding.
fn round_trip<W, D>(data: &[u8], write: impl Fn(D) -> W)
where
    W: Message + Default + PartialEq + Clone,
    D: TryFrom<W>,
    D::Error: std::fmt::Debug,
{
    let Ok(message) = W::decode(data) else { return };
    let Ok(domain) = D::try_from(message) else { return };
    let sent = write(domain);
    let bytes = sent.encode_to_vec();
    let arrived = W::decode(&bytes[..]).expect("an encoded message decodes");
    assert!(arrived == sent, "the message changed");
    let again = D::try_from(arrived).expect("an accepted message is accepted again");
    assert!(write(again) == sent, "the domain value changed");
}

fn encode_event(event: Event) -> proto::Event {
    match proto::watch_response::What::from(Watched::Event(event)) {
        proto::watch_response::What::Event(event) => event,
        other => panic!("an event became {other:?}"),
    }
}

/// The first byte selects the type of the message that follows.
pub fn messages(data: &[u8]) {
    let Some((which, data)) = data.split_first() else { return };
    match which % 25 {
        0 => round_trip::<proto::AcquireRequest, Claim>(data, Into::into),
        1 => round_trip::<proto::Renewal, Renewal>(data, |item| (&item).into()),
        2 => round_trip::<proto::ReleaseRequest, Release>(data, Into::into),
        3 => round_trip::<proto::TransferRequest, Transfer>(data, Into::into),
        4 => round_trip::<proto::RevokeRequest, Revoke>(data, Into::into),
        5 => round_trip::<proto::WipeRequest, Wipe>(data, Into::into),
        6 => round_trip::<proto::AcquireResponse, Acquired>(data, Into::into),
        7 => round_trip::<proto::Lease, Lease>(data, Into::into),
        8 => round_trip::<proto::TransferResponse, Transferred>(data, Into::into),
        9 => round_trip::<proto::RevokeResponse, Revoked>(data, Into::into),
        10 => round_trip::<proto::VerifyResponse, Verified>(data, Into::into),
        11 => round_trip::<proto::WipeResponse, Wiped>(data, Into::into),
        12 => round_trip::<proto::Fence, Fence>(data, |fence| (&fence).into()),
        13 => round_trip::<proto::Op, Op>(data, |op| (&op).into()),
        14 => round_trip::<proto::CommitResponse, Committed>(data, Into::into),
        15 => round_trip::<proto::Record, Record>(data, Into::into),
        16 => round_trip::<proto::ScanResponse, Page<Record>>(data, Into::into),
        17 => round_trip::<proto::LogEntry, LogEntry>(data, Into::into),
        18 => round_trip::<proto::CapabilitiesResponse, Capabilities>(data, Into::into),
        19 => round_trip::<proto::Status, Status>(data, Into::into),
        20 => round_trip::<proto::Query, Query>(data, |query| (&query).into()),
        21 => round_trip::<proto::ListResponse, Page<Status>>(data, Into::into),
        23 => round_trip::<proto::Announcement, Announcement>(data, |item| (&item).into()),
        22 => round_trip::<proto::Reign, Reign>(data, Into::into),
        _ => round_trip::<proto::Event, Event>(data, encode_event),
    }
    if let Ok(problem) = proto::Problem::decode(data) {
        assert!(!Error::from(problem).to_string().is_empty());
    }
}

/// One encoded message of every kind that the client sends.
pub fn message_seeds() -> Vec<Vec<u8>> {
    let key = Key::new("tuner/3").expect("a key");
    let holder = Holder::new("node-1").expect("a holder");
    let token = Token::parse("0123456789abcdef012345").expect("a token");
    let generation = Generation::new(42).expect("a generation");
    let ttl = Ttl::MAX;
    let claim = Claim::new(key.clone(), holder.clone(), token.clone(), ttl).waiting(Duration::from_secs(1));
    let lease = Lease { key: key.clone(), holder: holder.clone(), generation, ttl };
    let granted = Acquired::Granted(tenure_lease::Grant { lease: lease.clone(), parked: true });
    let fence = Fence { key: key.clone(), token: token.clone(), generation, mode: Mode::Monotonic };
    let put = Op::PutIfAbsent { key: key.clone(), value: b"value".as_slice().into(), ttl: Some(ttl) };
    let gate = Proof { key: key.clone(), token: token.clone(), generation };
    let announcement = Announcement {
        fence: fence.clone(),
        channel: key.clone(),
        message: b"message".as_slice().into(),
        latest: key.clone(),
        ttl,
        log: key.clone(),
        max_len: 10,
    };
    let renewal = Renewal { key: key.clone(), token: token.clone(), generation, ttl: Some(ttl) };
    let transfer = Transfer { key: key.clone(), token: token.clone(), generation, to: holder };
    let revoke = Revoke {
        key: key.clone(),
        generation,
        delay: Some(Duration::from_secs(1)),
        reason: tenure_lease::RevokeReason::default(),
    };
    let wipe = Wipe { prefix: tenure_lease::Prefix::default(), gate };
    let sent = [
        (0, proto::AcquireRequest::from(claim).encode_to_vec()),
        (1, proto::Renewal::from(&renewal).encode_to_vec()),
        (2, proto::ReleaseRequest::from(Release::new(key, token)).encode_to_vec()),
        (3, proto::TransferRequest::from(transfer).encode_to_vec()),
        (4, proto::RevokeRequest::from(revoke).encode_to_vec()),
        (5, proto::WipeRequest::from(wipe).encode_to_vec()),
        (6, proto::AcquireResponse::from(granted).encode_to_vec()),
        (7, proto::Lease::from(lease).encode_to_vec()),
        (12, proto::Fence::from(&fence).encode_to_vec()),
        (23, proto::Announcement::from(&announcement).encode_to_vec()),
        (13, proto::Op::from(&put).encode_to_vec()),
    ];
    sent.into_iter().map(|(which, bytes)| [&[which], &bytes[..]].concat()).collect()
}
