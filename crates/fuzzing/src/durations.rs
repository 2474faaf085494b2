//! Durations on the command line.

#[path = "../../tenure/src/cli/human.rs"]
#[allow(dead_code, reason = "the command line uses the rest")]
mod human;

/// A parsed duration can be formatted; an error says how to write one.
pub(crate) fn durations(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match human::parse_duration(text) {
        Ok(time) => {
            assert!(!human::format_duration(time).is_empty());
            let exact = humantime::format_duration(time).to_string();
            assert_eq!(human::parse_duration(&exact), Ok(time), "{text:?} as {exact:?}");
        }
        Err(error) => assert!(error.contains("write it as"), "{error}"),
    }
}
