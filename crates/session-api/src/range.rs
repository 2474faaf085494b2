//! Which part of a file is asked for.

use http::HeaderValue;

/// A part of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    pub(crate) first: u64,
    pub(crate) length: u64,
}

/// The one part that a `Range` header asks for. Whatever else it asks for may be ignored: then all of it is sent.
pub(crate) fn part(header: Option<&HeaderValue>, size: u64) -> Option<Part> {
    let (first, last) = header?.to_str().ok()?.strip_prefix("bytes=")?.split_once('-')?;
    let number = |text: &str| {
        text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten()
    };
    let (first, end) = match (first, last) {
        ("", last) => (size.saturating_sub(number(last)?), size),
        (first, "") => (number(first)?, size),
        (first, last) => (number(first)?, number(last)?.saturating_add(1).min(size)),
    };
    (first < end).then(|| Part { first, length: end - first })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Option<(u64, u64)> {
        let header = HeaderValue::from_str(text).unwrap();
        part(Some(&header), 100).map(|part| (part.first, part.length))
    }

    #[test]
    fn one_part_within_the_file_is_given() {
        assert_eq!(asked("bytes=0-0"), Some((0, 1)));
        assert_eq!(asked("bytes=10-19"), Some((10, 10)));
        assert_eq!(asked("bytes=90-"), Some((90, 10)));
        assert_eq!(asked("bytes=90-500"), Some((90, 10)));
        assert_eq!(asked("bytes=-5"), Some((95, 5)));
        assert_eq!(asked("bytes=-500"), Some((0, 100)));
        assert_eq!(asked(&format!("bytes=0-{}", u64::MAX)), Some((0, 100)));
    }

    #[test]
    fn what_cannot_be_given_as_one_part_is_ignored() {
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
            assert_eq!(asked(text), None, "{text}");
        }
        assert_eq!(part(None, 100), None);
        assert_eq!(part(Some(&HeaderValue::from_static("bytes=0-")), 0), None);
    }
}
