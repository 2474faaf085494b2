//! Parses M3U files as receivers and their tools export them.

use std::collections::BTreeSet;

use tenure_session::ServiceRef;

/// The largest accepted file.
pub(super) const MOST_BYTES: u64 = 4 << 20;
/// Most channels taken from a file.
const MOST_CHANNELS: usize = 10_000;
/// The longest name kept, in characters.
const LONGEST_NAME: usize = 128;

/// A channel entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) service_ref: ServiceRef,
    pub(super) name: String,
    pub(super) logo: Option<String>,
}

/// The contents of a file.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Playlist {
    pub(super) entries: Vec<Entry>,
    /// Entries that are not a channel of a receiver, are duplicates, or exceed the limit.
    pub(super) skipped: usize,
}

/// Parses a file. Entries that are not channels are skipped and counted.
pub(super) fn parse(text: &str) -> Playlist {
    let mut playlist = Playlist::default();
    let mut known = BTreeSet::new();
    let mut about: Option<(String, Option<String>)> = None;
    for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
        if let Some(info) = line.strip_prefix("#EXTINF:") {
            about = Some(parse_info(info));
        } else if !line.is_empty() && !line.starts_with('#') {
            let (name, logo) = about.take().unwrap_or_default();
            let full = playlist.entries.len() >= MOST_CHANNELS;
            match parse_service_ref(line).filter(|found| !full && known.insert(found.clone())) {
                Some(service_ref) => {
                    let name = if name.is_empty() { service_ref.as_str().to_owned() } else { name };
                    playlist.entries.push(Entry { service_ref, name, logo });
                }
                None => playlist.skipped += 1,
            }
        }
    }
    playlist
}

/// Parses name and logo from `-1 tvg-logo="…" group-title="a, b",The name`.
fn parse_info(info: &str) -> (String, Option<String>) {
    let mut quoted = false;
    let comma = info.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == ',' && !quoted
    });
    let (attributes, name) = comma.map_or((info, ""), |(at, _)| (&info[..at], &info[at + 1..]));
    let name = name.trim().chars().filter(|c| !c.is_control()).take(LONGEST_NAME).collect();
    let logo = attributes.split_once("tvg-logo=\"").and_then(|(_, rest)| rest.split_once('"'));
    (name, logo.map(|(logo, _)| logo.to_owned()).filter(|logo| !logo.is_empty()))
}

/// Finds the channel reference in a URL: the parameter `ref`, or the last part of the path.
fn parse_service_ref(address: &str) -> Option<ServiceRef> {
    let (_, rest) = address.split_once("://")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let parameter = query.split('&').find_map(|pair| pair.strip_prefix("ref="));
    let last = path.split_once('/').and_then(|(_, path)| path.rsplit('/').next());
    let text = percent_decode(parameter.or(last)?)?;
    // References consist of numbers separated by colons.
    (text.matches(':').count() >= 3).then(|| ServiceRef::new(&text).ok())?
}

/// Decodes percent-encoding.
fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_logos_and_references_are_parsed() {
        let text = "\u{feff}#EXTM3U\r\n\
            #EXTINF:-1 tvg-id=\"x\" tvg-logo=\"http://box/a.png\" group-title=\"News, all\",Das Erste HD\r\n\
            http://box:8001/1:0:19:283D:3FB:1:C00000:0:0:0:\r\n\
            #EXTVLCOPT:http-user-agent=x\n\
            #EXTINF:-1,ZDF HD\n\
            http://box/web/stream.m3u?name=x&ref=1%3A0%3A19%3A2B66%3A3F3%3A1%3AC00000%3A0%3A0%3A0%3A\n\
            http://user:secret@box:8001/1:0:1:445D:453:1:C00000:0:0:0:\n";
        let playlist = parse(text);
        let names: Vec<_> =
            playlist.entries.iter().map(|one| (one.name.as_str(), one.service_ref.as_str())).collect();
        assert_eq!(
            names,
            [
                ("Das Erste HD", "1:0:19:283D:3FB:1:C00000:0:0:0:"),
                ("ZDF HD", "1:0:19:2B66:3F3:1:C00000:0:0:0:"),
                ("1:0:1:445D:453:1:C00000:0:0:0:", "1:0:1:445D:453:1:C00000:0:0:0:"),
            ]
        );
        assert_eq!(playlist.entries[0].logo.as_deref(), Some("http://box/a.png"));
        assert_eq!(playlist.skipped, 0);
    }

    #[test]
    fn entries_that_are_not_channels_are_skipped_and_counted() {
        let twice = "http://box:8001/1:0:1:1:1:1:1:0:0:0:\n";
        for (text, channels, skipped) in [
            ("", 0, 0),
            ("http://radio.example/live.mp3\nnot an address\n", 0, 2),
            ("http://box:8001/1%3\nhttp://box:8001/1:0:1:%ff\nhttp://box:8001/1:0:1:a|b\n", 0, 3),
            (&twice.repeat(2), 1, 1),
        ] {
            let playlist = parse(text);
            assert_eq!((playlist.entries.len(), playlist.skipped), (channels, skipped), "{text:?}");
        }
    }

    #[test]
    fn the_number_of_channels_and_the_length_of_names_are_limited() {
        let line = |n: usize| format!("#EXTINF:-1,{}\nhttp://b/1:0:1:{n:X}:0\n", "n".repeat(1_000));
        let text: String = (0..MOST_CHANNELS + 5).map(line).collect();
        let playlist = parse(&text);
        assert_eq!((playlist.entries.len(), playlist.skipped), (MOST_CHANNELS, 5));
        assert!(playlist.entries.iter().all(|one| one.name.len() == LONGEST_NAME));
    }
}
