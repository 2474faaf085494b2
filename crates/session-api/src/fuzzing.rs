//! Entry points of the fuzz targets.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use tenure_session::{Intent, Secrets};

use crate::intent_body::IntentBody;
use tenure_service::net::Cidr;

use crate::lan::LanPolicy;
use crate::options::Profiles;
use crate::range;

/// Any body is rejected or gives an intent whose hashed fields contain no separator.
pub fn intents(data: &[u8], secrets: &Secrets) {
    let Ok(body) = serde_json::from_slice::<IntentBody>(data) else { return };
    match body.into_intent(&Profiles::default()) {
        Err(_) => {}
        Ok(Intent::Start(start)) => {
            for part in [start.target.id(), start.profile.as_str()] {
                assert!(
                    !part.is_empty() && part.bytes().all(|b| b.is_ascii_graphic() && b != b'|'),
                    "{part:?}"
                );
            }
            let keys = secrets.candidates(&start);
            assert_eq!(keys.first(), Some(&secrets.key(&start)));
        }
        Ok(Intent::Stop { session, .. }) => {
            let plain = |b: u8| b.is_ascii_alphanumeric() || b"_-".contains(&b);
            assert!(session.as_str().bytes().all(plain), "{session:?}");
        }
    }
}

/// No `X-Forwarded-For` header lets in a client outside the allowed networks, and any `Range` stays within its file.
pub fn forwarded(data: &[u8]) {
    const SIZE: u64 = 1_000;
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Ok(value) = HeaderValue::from_bytes(line) else { continue };
        if let Some(part) = range::parse_range(Some(&value), SIZE) {
            assert!(part.length > 0 && part.first + part.length <= SIZE, "{part:?}");
        }
        headers.append("x-forwarded-for", value);
    }
    let ranges = |text: &str| -> Vec<Cidr> { text.parse().into_iter().collect() };
    let proxies = ranges("203.0.113.0/24").into();
    let policy = LanPolicy { allow: ranges("192.168.0.0/16"), trusted_proxies: proxies };
    let from = |address: [u8; 4]| policy.check(Some(IpAddr::from(address)), &headers);
    assert!(from([8, 8, 8, 8]).is_err(), "an untrusted peer cannot forge its address");
    assert!(from([192, 168, 1, 1]).is_ok(), "an allowed peer needs no header");
    if from([203, 0, 113, 1]).is_ok() {
        let text = data.to_ascii_lowercase();
        let inside = |needle: &[u8]| text.windows(needle.len()).any(|window| window == needle);
        assert!(inside(b"192.168.") || inside(b"c0a8"), "the chain contains an allowed address");
    }
}
