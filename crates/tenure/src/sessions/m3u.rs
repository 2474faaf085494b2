//! Channels from an M3U file, as receivers and their tools export them.

use std::collections::BTreeSet;

use session::ServiceRef;

/// The largest file read.
pub(super) const MOST_BYTES: u64 = 4 << 20;
/// Most channels taken from a file.
const MOST_CHANNELS: usize = 10_000;
/// The longest name kept, in characters.
const LONGEST_NAME: usize = 128;

/// One entry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) service_ref: ServiceRef,
    pub(super) name: String,
    pub(super) logo: Option<String>,
}

/// What was in a file.
#[derive(PartialEq, Eq, Debug, Default)]
pub(super) struct Read {
    pub(super) entries: Vec<Entry>,
    /// Entries that name no channel of a receiver, that were there before, or that were too many.
    pub(super) skipped: usize,
}

/// Reads the text of a file. What is no channel is skipped and counted: such files hold all sorts of things.
pub(super) fn read(text: &str) -> Read {
    let mut found = Read::default();
    let mut known = BTreeSet::new();
    let mut about: Option<(String, Option<String>)> = None;
    for line in text.trim_start_matches('\u{feff}').lines().map(str::trim) {
        if let Some(info) = line.strip_prefix("#EXTINF:") {
            about = Some(described(info));
        } else if !line.is_empty() && !line.starts_with('#') {
            let (name, logo) = about.take().unwrap_or_default();
            let full = found.entries.len() >= MOST_CHANNELS;
            match service_ref(line).filter(|wanted| !full && known.insert(wanted.clone())) {
                Some(service_ref) => {
                    let name = if name.is_empty() { service_ref.as_str().to_owned() } else { name };
                    found.entries.push(Entry { service_ref, name, logo });
                }
                None => found.skipped += 1,
            }
        }
    }
    found
}

/// Name and logo in `-1 tvg-logo="…" group-title="a, b",The name`.
fn described(info: &str) -> (String, Option<String>) {
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

/// The channel that an address names: in `ref=`, or as the last part of its path.
fn service_ref(address: &str) -> Option<ServiceRef> {
    let (_, rest) = address.split_once("://")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let asked = query.split('&').find_map(|pair| pair.strip_prefix("ref="));
    let last = path.split_once('/').and_then(|(_, path)| path.rsplit('/').next());
    let text = decoded(asked.or(last)?)?;
    // A receiver's references are numbers between colons.
    (text.matches(':').count() >= 3).then(|| ServiceRef::new(&text).ok())?
}

/// With `%3A` as what it stands for.
fn decoded(text: &str) -> Option<String> {
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
    fn names_logos_and_references_are_found_as_receivers_write_them() {
        let text = "\u{feff}#EXTM3U\r\n\
            #EXTINF:-1 tvg-id=\"x\" tvg-logo=\"http://box/a.png\" group-title=\"News, all\",Das Erste HD\r\n\
            http://box:8001/1:0:19:283D:3FB:1:C00000:0:0:0:\r\n\
            #EXTVLCOPT:http-user-agent=x\n\
            #EXTINF:-1,ZDF HD\n\
            http://box/web/stream.m3u?name=x&ref=1%3A0%3A19%3A2B66%3A3F3%3A1%3AC00000%3A0%3A0%3A0%3A\n\
            http://user:secret@box:8001/1:0:1:445D:453:1:C00000:0:0:0:\n";
        let read = read(text);
        let names: Vec<_> =
            read.entries.iter().map(|one| (one.name.as_str(), one.service_ref.as_str())).collect();
        assert_eq!(
            names,
            [
                ("Das Erste HD", "1:0:19:283D:3FB:1:C00000:0:0:0:"),
                ("ZDF HD", "1:0:19:2B66:3F3:1:C00000:0:0:0:"),
                ("1:0:1:445D:453:1:C00000:0:0:0:", "1:0:1:445D:453:1:C00000:0:0:0:"),
            ]
        );
        assert_eq!(read.entries[0].logo.as_deref(), Some("http://box/a.png"));
        assert_eq!(read.skipped, 0);
    }

    #[test]
    fn what_is_no_channel_is_skipped_and_counted() {
        let twice = "http://box:8001/1:0:1:1:1:1:1:0:0:0:\n";
        for (text, channels, skipped) in [
            ("", 0, 0),
            ("http://radio.example/live.mp3\nnot an address\n", 0, 2),
            ("http://box:8001/1%3\nhttp://box:8001/1:0:1:%ff\nhttp://box:8001/1:0:1:a|b\n", 0, 3),
            (&twice.repeat(2), 1, 1),
        ] {
            let read = read(text);
            assert_eq!((read.entries.len(), read.skipped), (channels, skipped), "{text:?}");
        }
    }

    #[test]
    fn a_file_of_any_size_gives_a_bounded_list_of_bounded_names() {
        let line = |n: usize| format!("#EXTINF:-1,{}\nhttp://b/1:0:1:{n:X}:0\n", "n".repeat(1_000));
        let text: String = (0..MOST_CHANNELS + 5).map(line).collect();
        let read = read(&text);
        assert_eq!((read.entries.len(), read.skipped), (MOST_CHANNELS, 5));
        assert!(read.entries.iter().all(|one| one.name.len() == LONGEST_NAME));
    }
}
