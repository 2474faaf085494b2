//! What the fuzz targets need to see.

use std::net::IpAddr;

use http::{HeaderMap, HeaderValue};
use session::{Intent, Secrets};

use crate::lan::Lan;
use crate::options::Profiles;
use crate::range;
use crate::wish::IntentBody;

/// Any body is a wish whose hashed fields cannot forge another's, or it is refused.
pub fn intents(data: &[u8], secrets: &Secrets) {
    let Ok(body) = serde_json::from_slice::<IntentBody>(data) else { return };
    match body.read(&Profiles::default()) {
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

/// Any lines of `X-Forwarded-For` let nobody in who is not of the house, and any `Range` is within its file.
pub fn forwarded(data: &[u8]) {
    const SIZE: u64 = 1_000;
    let mut headers = HeaderMap::new();
    for line in data.split(|byte| *byte == b'\n').take(64) {
        let Ok(value) = HeaderValue::from_bytes(line) else { continue };
        if let Some(part) = range::part(Some(&value), SIZE) {
            assert!(part.length > 0 && part.first + part.length <= SIZE, "{part:?}");
        }
        headers.append("x-forwarded-for", value);
    }
    let ranges = |text: &str| text.parse().into_iter().collect();
    let house = Lan { allow: ranges("192.168.0.0/16"), trusted: ranges("203.0.113.0/24") };
    let from = |address: [u8; 4]| house.check(Some(IpAddr::from(address)), &headers);
    assert!(from([8, 8, 8, 8]).is_err(), "a stranger says what it likes");
    assert!(from([192, 168, 1, 1]).is_ok(), "whoever is inside needs no header");
    if from([203, 0, 113, 1]).is_ok() {
        let text = data.to_ascii_lowercase();
        let inside = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
        assert!(inside(b"192.168.") || inside(b"c0a8"), "somebody inside stands in the chain");
    }
}
