//! A minimal Rust parser, which separates code from comments, strings and tests, and finds functions.
use std::ops::Range;

use crate::tidy::source_mask::mask;

/// A function with a body.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    /// Its name.
    pub(super) name: String,
    /// The line of its `fn`, from 1.
    pub(super) line: usize,
    /// From its `fn` to its closing brace.
    pub(super) lines: usize,
    /// Whether an attribute makes it a test.
    pub(super) is_test: bool,
    /// Whether it is in a module compiled for tests only.
    pub(super) in_tests: bool,
}

/// A Rust file whose comments and literals are blanked out.
pub(super) struct Source {
    /// The code, byte for byte as long as the file.
    code: String,
    tests: Vec<Range<usize>>,
    modules: Vec<String>,
}

impl Source {
    /// Reads a file.
    pub(super) fn parse(text: &str) -> Source {
        let code = mask(text);
        let mut source = Source { code, tests: Vec::new(), modules: Vec::new() };
        for (at, _) in source.code.match_indices("#[cfg(") {
            let Some(end) = closing(&source.code, at + 1) else { continue };
            if !means_test(&source.code[at + 6..end]) {
                continue;
            }
            let rest = skip_attributes(&source.code, end + 1);
            let Some(name_at) = after_modifiers(&source.code, rest, "mod") else { continue };
            let name = word(&source.code, name_at);
            let after = name_at + name.len();
            let after = after + source.code[after..].len() - source.code[after..].trim_start().len();
            match source.code.as_bytes().get(after) {
                Some(b'{') => {
                    let end = closing(&source.code, after).unwrap_or(source.code.len());
                    source.tests.push(at..end + 1);
                }
                Some(b';') => source.modules.push(name.to_owned()),
                _ => {}
            }
        }
        source
    }

    /// The code without comments and the contents of literals; offsets are those of the file.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// Whether the whole file is compiled for tests only.
    pub(super) fn is_test(&self) -> bool {
        self.code.match_indices("#![cfg(").any(|(at, open)| {
            closing(&self.code, at + 2).is_some_and(|end| means_test(&self.code[at + open.len()..end]))
        })
    }

    /// The modules declared here that are compiled for tests only and are in separate files.
    pub(super) fn test_modules(&self) -> Vec<String> {
        self.modules.clone()
    }

    /// The lines outside of test modules, from 1.
    pub(super) fn product_lines(&self) -> impl Iterator<Item = (usize, &str)> {
        let mut at = 0;
        self.code.split_inclusive('\n').enumerate().filter_map(move |(index, line)| {
            let start = at;
            at += line.len();
            let first = start + line.len() - line.trim_start().len();
            (!self.in_tests(first.min(at - 1))).then_some((index + 1, line.trim_end()))
        })
    }

    /// The attributes outside of test modules, with their offsets.
    pub(super) fn product_attributes(&self) -> impl Iterator<Item = (usize, &str)> {
        self.code.match_indices("#[").filter(|(at, _)| !self.in_tests(*at)).filter_map(|(at, _)| {
            let end = closing(&self.code, at + 1)?;
            Some((at, &self.code[at..=end]))
        })
    }

    fn in_tests(&self, at: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&at))
    }

    /// The line of an offset, from 1.
    pub(super) fn line_of(&self, at: usize) -> usize {
        self.code[..at].matches('\n').count() + 1
    }

    /// Every function that has a body.
    pub(super) fn functions(&self) -> Vec<Function> {
        let tests = self.test_functions();
        let mut functions = Vec::new();
        for (at, _) in self.code.match_indices("fn") {
            if !is_word(&self.code, at, 2) {
                continue;
            }
            let name_at = at + 2 + self.code[at + 2..].len() - self.code[at + 2..].trim_start().len();
            let name = word(&self.code, name_at);
            let Some(end) = (!name.is_empty()).then(|| body_end(&self.code, name_at)).flatten() else {
                continue;
            };
            let line = self.line_of(at);
            functions.push(Function {
                name: name.to_owned(),
                line,
                lines: self.line_of(end) - line + 1,
                is_test: tests.contains(&name_at),
                in_tests: self.in_tests(at),
            });
        }
        functions
    }

    /// The offsets of the names of functions with an attribute such as `#[test]` or `#[tokio::test(…)]`.
    fn test_functions(&self) -> Vec<usize> {
        let attributes = self.code.match_indices("#[").filter(|(at, _)| {
            let path = self.code[at + 2..].split(['(', ']', '=']).next().unwrap_or_default();
            matches!(path.rsplit("::").next().unwrap_or_default().trim(), "test" | "rstest" | "test_case")
        });
        attributes
            .filter_map(|(at, _)| after_modifiers(&self.code, skip_attributes(&self.code, at), "fn"))
            .collect()
    }
}

/// Whether a `cfg` predicate holds in test builds only: `test`, or `all(…)` with it.
fn means_test(predicate: &str) -> bool {
    let predicate = predicate.trim().trim_end_matches(')');
    let parts = predicate.strip_prefix("all(").unwrap_or(predicate);
    parts.split(',').any(|part| part.trim() == "test")
}

/// The offset after any attributes at `at` and the space around them.
fn skip_attributes(code: &str, mut at: usize) -> usize {
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        let Some(end) = code[at..].starts_with("#[").then(|| closing(code, at + 1)).flatten() else {
            return at;
        };
        at = end + 1;
    }
}

/// The offset of the name after `keyword`, if only modifiers such as `pub(crate) async` precede it.
fn after_modifiers(code: &str, at: usize, keyword: &str) -> Option<usize> {
    let mut at = at;
    loop {
        at += code[at..].len() - code[at..].trim_start().len();
        let found = word(code, at);
        match found {
            _ if found == keyword => {
                let name = at + found.len();
                return Some(name + code[name..].len() - code[name..].trim_start().len());
            }
            "pub" | "async" | "const" | "unsafe" | "extern" => at += found.len(),
            _ if code[at..].starts_with('(') => at = closing(code, at)? + 1,
            _ => return None,
        }
    }
}

/// The end of the body of the function whose name is at `at`; `None` without a body.
fn body_end(code: &str, at: usize) -> Option<usize> {
    let mut at = at;
    loop {
        match code.as_bytes().get(at)? {
            b'{' => return closing(code, at),
            b';' => return None,
            b'(' | b'[' => at = closing(code, at)? + 1,
            _ => at += 1,
        }
    }
}

/// The bracket that closes the one at `open`.
fn closing(code: &str, open: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (offset, byte) in code.as_bytes()[open..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(open + offset);
                }
            }
            _ => {}
        }
    }
    None
}

fn word(code: &str, at: usize) -> &str {
    let end = code[at..].find(|c: char| !is_ident(c)).unwrap_or(code.len() - at);
    &code[at..at + end]
}

fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the `len` bytes at `at` are a whole word.
pub(super) fn is_word(text: &str, at: usize, len: usize) -> bool {
    !text[..at].ends_with(is_ident) && !text[at + len..].starts_with(is_ident)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_not_product_lines() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nfn c() {}\n";
        let source = Source::parse(text);
        let lines: Vec<usize> = source.product_lines().map(|(line, _)| line).collect();
        assert_eq!(lines, [1, 6]);
    }

    #[test]
    fn attributes_are_whole_and_those_of_test_modules_left_out() {
        let text = "#[arg(\n    long,\n)]\na: u8,\n#[cfg(test)]\nmod tests {\n    #[arg(short)]\n}\n#[b]\n";
        let source = Source::parse(text);
        let attributes: Vec<(usize, &str)> = source.product_attributes().collect();
        assert_eq!(attributes, [(0, "#[arg(\n    long,\n)]"), (text.len() - 5, "#[b]")]);
    }

    #[test]
    fn only_predicates_that_need_tests_mean_tests() {
        assert!(means_test("test") && means_test("all(test, feature = \"  \")"));
        assert!(
            !means_test("any(test, feature = \"  \")") && !means_test("not(test)") && !means_test("testing")
        );
    }

    #[test]
    fn modules_in_their_own_files_are_named() {
        let source = Source::parse("#[cfg(test)]\n#[path = \"x.rs\"]\npub(crate) mod cases;\nmod real;\n");
        assert_eq!(source.test_modules(), ["cases"]);
    }

    #[test]
    fn functions_are_measured_from_signature_to_brace() {
        let text = "trait T {\n    fn none(&self) -> [u8; 4];\n}\nfn some(\n    a: fn(u8),\n) -> [u8; 4] {\n    \"}\"; // }\n}\n";
        let functions = Source::parse(text).functions();
        assert_eq!(functions.len(), 1, "{functions:?}");
        assert_eq!((functions[0].name.as_str(), functions[0].line, functions[0].lines), ("some", 4, 5));
    }

    #[test]
    fn tests_are_recognized_by_their_attribute() {
        let text = "#[test]\nfn a() {}\n#[tokio::test(start_paused = true)]\n#[cfg(unix)]\npub(crate) async fn b() {}\nfn c() {}\n#[cfg(test)]\nfn d() {}\n";
        let tests: Vec<String> =
            Source::parse(text).functions().into_iter().filter(|f| f.is_test).map(|f| f.name).collect();
        assert_eq!(tests, ["a", "b"]);
    }
}
