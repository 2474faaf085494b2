//! Names, tokens, numbers and URLs.

use tenure_lease::{BusyReason, End, Generation, Holder, Key, Meta, Prefix, Token, Ttl, Verb, limits};

/// Accepted values are stored unchanged, within their limits; a token is never printed.
pub(crate) fn words(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let plain = text.bytes().all(|b| b.is_ascii_graphic());
    match Key::new(text) {
        Ok(key) => assert!(key.as_str() == text && plain && (1..=limits::KEY).contains(&text.len())),
        Err(_) => assert!(!plain || text.is_empty() || text.len() > limits::KEY),
    }
    if let Ok(prefix) = Prefix::new(text) {
        assert_eq!(prefix.as_str(), text);
        assert!(
            Key::new(format!("{text}x")).is_ok_and(|key| key.starts_with(&prefix))
                || text.len() == limits::KEY
        );
    }
    if let Ok(holder) = Holder::new(text) {
        assert!(holder.as_str() == text && (1..=limits::HOLDER).contains(&text.len()));
    }
    if let Ok(meta) = Meta::new(text) {
        assert!(meta.as_str() == text && text.len() <= limits::META);
    }
    if let Ok(token) = Token::parse(text) {
        assert_eq!(token.reveal(), text);
        assert!(!format!("{token:?}{:?}", token.digest()).contains(text));
        assert_eq!(Token::parse(token.reveal()).unwrap().digest(), token.digest());
    }
    if let Ok(generation) = Generation::parse(text) {
        assert_eq!(generation.to_string(), text);
        assert!(generation.get() >= 1 && generation.get() < 1 << 53);
    }
    if let Ok(ttl) = text.parse().map_err(|_| ()).and_then(|ms| Ttl::from_millis(ms).map_err(drop)) {
        assert_eq!(Ttl::from_millis(ttl.as_millis()).unwrap(), ttl);
        assert!(ttl <= Ttl::MAX && ttl.as_millis() > 0);
    }
    assert!(BusyReason::parse(text).is_none_or(|reason| reason.as_str() == text));
    assert!(End::parse(text).is_none_or(|end| end.as_str() == text));
    assert!(Verb::parse(text).is_none_or(|verb| verb.as_str() == text));
}

/// A URL is accepted or refused with a hint.
pub(crate) fn addresses(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match tenure_client::fuzzing::address(text) {
        Ok(uri) => {
            let uri: ::http::Uri = uri.parse().expect("an accepted URL is an HTTP URL");
            assert!(uri.host().is_some() && uri.port_u16().is_some_and(|port| port > 0));
        }
        Err(error) => assert!(error.to_string().contains("tenure://HOST:PORT"), "{error}"),
    }
    if text.starts_with("redis://")
        && let Ok((most, quarantine, timeout)) = tenure_store::fuzzing::redis_address(text)
    {
        assert!(most >= 500 && timeout > 0, "{most} {quarantine} {timeout}");
    }
}
