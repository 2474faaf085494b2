//! Blanks comments and the contents of literals, so that text is not mistaken for code.

/// The code of `text`: every byte of a comment or inside a literal becomes a space, line breaks and the
/// quotes stay, so offsets and lines are those of `text`.
pub(super) fn mask(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let (hidden, next) = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => {
                let end = find(bytes, at, b"\n").unwrap_or(bytes.len());
                (at..end, end)
            }
            b'/' if bytes[at..].starts_with(b"/*") => {
                let end = block_end(bytes, at);
                (at..end, end)
            }
            b'"' => {
                let end = string_end(bytes, at + 1, b'"');
                (at + 1..end, end + 1)
            }
            b'r' if !identifier_before(bytes, at) && raw_hashes(bytes, at).is_some() => {
                let hashes = raw_hashes(bytes, at).unwrap_or(0);
                let start = at + hashes + 2;
                let mut close = vec![b'"'];
                close.resize(hashes + 1, b'#');
                let end = find(bytes, start, &close).unwrap_or(bytes.len());
                (start..end, end + close.len())
            }
            b'\'' => match char_end(text, at) {
                Some(end) => (at + 1..end, end + 1),
                None => (at..at, at + 1),
            },
            _ => (at..at, at + 1),
        };
        for byte in &mut code[hidden] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = next;
    }
    String::from_utf8_lossy(&code).into_owned()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    bytes.get(from..)?.windows(what.len()).position(|window| window == what).map(|offset| from + offset)
}

fn block_end(bytes: &[u8], start: usize) -> usize {
    let mut depth = 0usize;
    let mut at = start;
    while at < bytes.len() {
        if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    bytes.len()
}

fn string_end(bytes: &[u8], start: usize, quote: u8) -> usize {
    let mut at = start;
    while at < bytes.len() && bytes[at] != quote {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at.min(bytes.len())
}

/// Whether the letter at `at` ends or continues an identifier; `b` and `c` before a raw string do not.
fn identifier_before(bytes: &[u8], at: usize) -> bool {
    let ident = |index: usize| bytes[index].is_ascii_alphanumeric() || bytes[index] == b'_';
    match at {
        0 => false,
        1 => ident(0) && !matches!(bytes[0], b'b' | b'c'),
        _ => ident(at - 1) && (!matches!(bytes[at - 1], b'b' | b'c') || ident(at - 2)),
    }
}

/// How many hashes open the raw string at `at`, if one starts there.
fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes[at + 1..].iter().take_while(|byte| **byte == b'#').count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

/// The closing quote of the character at `at`; `None` for a lifetime.
fn char_end(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at + 1..];
    let first = rest.chars().next()?;
    if first == '\\' {
        return Some(string_end(text.as_bytes(), at + 1, b'\''));
    }
    let end = at + 1 + first.len_utf8();
    (text.as_bytes().get(end) == Some(&b'\'')).then_some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        let cases = [
            ("a // b\nc", "a     \nc"),
            ("a /* b /* c */ d */ e", "a                   e"),
            (r#"f("x\"y") z"#, r#"f("    ") z"#),
            (r##"r#"a"b"# c"##, r##"r#"   "# c"##),
            (r#"br"a" c"#, r#"br" " c"#),
            ("for\"a\" b", "for\" \" b"),
            ("'{' x", "' ' x"),
            (r"'\'' x", "'  ' x"),
            ("&'a str", "&'a str"),
            ("'é' x", "'  ' x"),
            ("\"a\nb\" c", "\" \n \" c"),
            ("\"open", "\"    "),
        ];
        for (text, code) in cases {
            assert_eq!(mask(text), code, "{text}");
            assert_eq!(mask(text).len(), text.len(), "{text}");
        }
    }
}
