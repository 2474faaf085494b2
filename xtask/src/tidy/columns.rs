//! Documents have short lines. Tables and code are exempt: they cannot be wrapped.
use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// The longest line of prose, in characters.
const MOST: usize = 120;

/// Lines of Markdown prose that are too long.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| path.ends_with(".md")) {
        let mut in_code = false;
        for (index, line) in text.lines().enumerate() {
            in_code ^= line.trim_start().starts_with("```");
            let length = line.chars().count();
            if !in_code && !line.starts_with('|') && length > MOST {
                let message = format!("has {length} characters; wrap prose at {MOST}");
                violations.push(Violation::new(path, index + 1, message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prose_is_found_and_tables_and_code_are_exempt() {
        let long = "x".repeat(121);
        let text = format!("{long}\n| {long} |\n```sh\n{long}\n```\n{}\n", "é".repeat(120));
        let found = check(&Tree::of(&[("docs/a.md", &text), ("src/a.rs", &long)]));
        assert_eq!(found.iter().map(|violation| violation.line).collect::<Vec<_>>(), [1]);
    }
}
