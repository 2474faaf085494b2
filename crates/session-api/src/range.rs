//! Parses the `Range` header.

use http::HeaderValue;

/// A byte range of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) length: u64,
}

/// Parses a header with a single range. Anything else is ignored, which the specification permits: then the whole file is
/// sent.
pub(crate) fn parse_range(header: Option<&HeaderValue>, size: u64) -> Option<ByteRange> {
    let (first, last) = header?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, end) = match (first, last) {
        ("", last) => (size.saturating_sub(number(last)?), size),
        (first, "") => (number(first)?, size),
        (first, last) => (number(first)?, number(last)?.saturating_add(1).min(size)),
    };
    (first < end).then(|| ByteRange { first, length: end - first })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(u64, u64)> {
        let header = HeaderValue::from_str(text).unwrap();
        parse_range(Some(&header), 100).map(|range| (range.first, range.length))
    }

    #[test]
    fn a_single_range_is_clamped_to_the_file() {
        assert_eq!(parse("bytes=0-0"), Some((0, 1)));
        assert_eq!(parse("bytes=10-19"), Some((10, 10)));
        assert_eq!(parse("bytes=90-"), Some((90, 10)));
        assert_eq!(parse("bytes=90-500"), Some((90, 10)));
        assert_eq!(parse("bytes=-5"), Some((95, 5)));
        assert_eq!(parse("bytes=-500"), Some((0, 100)));
        assert_eq!(parse(&format!("bytes=0-{}", u64::MAX)), Some((0, 100)));
    }

    #[test]
    fn anything_else_is_ignored() {
        for text in [
            "",
            "bytes",
            "bytes=",
            "bytes=-",
            "bytes=100-",
            "bytes=5-4",
            "bytes=-0",
            "bytes=0-1,5-6",
            "items=0-1",
            "bytes=+1-2",
            "bytes=a-b",
            "bytes=99999999999999999999-",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse_range(None, 100), None);
        assert_eq!(parse_range(Some(&HeaderValue::from_static("bytes=0-")), 0), None);
    }
}
