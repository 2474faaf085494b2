//! The bodies of the fuzz targets, one for every parser that takes bytes from outside.
//!
//! A body accepts any bytes and panics if the code violates a guarantee. Parsers with an encoder are checked by round trip. `fuzz/` runs the bodies under libFuzzer; the test of this crate runs them over `fuzz/corpus` and a
//! seeded mutator, on any toolchain.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a body ends in a panic when a promise is broken"
)]

mod durations;
mod folder;
mod headers;
mod http;
mod sessions;
mod settings;
mod watchdog;
mod words;

/// A parser under test.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, which is also its directory in `fuzz/corpus`.
    pub name: &'static str,
    /// The body.
    pub run: fn(&[u8]),
    /// Generated seed inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// The number of inputs in the test; a second or two.
    pub tries: usize,
}

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>, tries: usize) -> Target {
    Target { name, run, seeds, tries }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    target("words", words::words, Vec::new, 20_000),
    target("addresses", words::addresses, Vec::new, 10_000),
    target("durations", durations::durations, Vec::new, 20_000),
    target("watchdog", watchdog::watchdog, Vec::new, 20_000),
    target("redis", tenure_store::fuzzing::redis, tenure_store::fuzzing::redis_seeds, 20_000),
    target("folder", folder::folder, folder::seeds, 200),
    target(
        "messages",
        tenure_lease_wire::fuzzing::messages,
        tenure_lease_wire::fuzzing::message_seeds,
        20_000,
    ),
    target("http", http::http, Vec::new, 3_000),
    target("headers", headers::headers, Vec::new, 3_000),
    target("intents", sessions::intents, Vec::new, 20_000),
    target("forwarded", tenure_session_api::fuzzing::forwarded, Vec::new, 20_000),
    target("meet_frames", tenure_meet_wire::fuzzing::frames, tenure_meet_wire::fuzzing::frame_seeds, 20_000),
    target(
        "meet_media",
        tenure_meet_wire::media::fuzzing::media,
        tenure_meet_wire::media::fuzzing::media_seeds,
        20_000,
    ),
    target("meet_jwts", tenure_meet_wire::fuzzing::jwts, tenure_meet_wire::fuzzing::jwt_seeds, 3_000),
    target("meet_jwks", tenure_meet_wire::fuzzing::jwks, tenure_meet_wire::fuzzing::jwks_seeds, 10_000),
    target("meet_names", tenure_meet_wire::fuzzing::names, tenure_meet_wire::fuzzing::name_seeds, 5_000),
    target("settings", settings::settings, Vec::new, 1_000),
    target("tokens", settings::tokens, Vec::new, 3_000),
];
