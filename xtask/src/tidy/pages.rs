//! Every public error code has a page, and every alert has a runbook.
use std::collections::BTreeMap;

use crate::tidy::Violation;
use crate::tidy::deploy::listed_alerts;
use crate::tidy::tree::{Tree, under};

const CODES: &str = "crates/service/src/code.rs";
const ERRORS: &str = "docs/errors";
const RUNBOOKS: &str = "docs/runbooks";

/// Codes without a page, pages without a code, alerts without a runbook.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = errors(tree);
    violations.extend(alerts(tree));
    violations
}

/// Applies once both the table of codes and the directory of pages exist.
fn errors(tree: &Tree) -> Vec<Violation> {
    let (Some(text), Some(source)) = (tree.text(CODES), tree.source(CODES)) else { return Vec::new() };
    if !tree.has(ERRORS) {
        return Vec::new();
    }
    let mut codes = BTreeMap::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let code = &source.code()[at..at + line.len()];
        let number = source.line_of(at);
        if source.product_lines().any(|(product, _)| product == number) {
            codes.extend(literals(line, code).into_iter().map(|name| (name, number)));
        }
        at += line.len();
    }
    if codes.is_empty() {
        return vec![Violation::new(
            CODES,
            1,
            "names no code such as \"LEASE_EXPIRED\", so no page can be checked",
        )];
    }
    let mut violations = Vec::new();
    for (name, line) in &codes {
        if tree.text(&format!("{ERRORS}/{name}.md")).is_none() {
            violations.push(Violation::new(CODES, *line, format!("`{name}` has no page {ERRORS}/{name}.md")));
        }
    }
    for (path, _) in tree.texts().filter(|(path, _)| under(path, ERRORS)) {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".md");
        if is_code(name) && name != "README" && !codes.contains_key(name) {
            violations.push(Violation::new(path, 1, format!("there is no code `{name}` in {CODES}")));
        }
    }
    violations
}

/// The string literals of a line that look like codes; `code` is the line with literals blanked.
fn literals<'a>(line: &'a str, code: &str) -> Vec<&'a str> {
    let quotes: Vec<usize> = code.match_indices('"').map(|(at, _)| at).collect();
    quotes.chunks_exact(2).map(|pair| &line[pair[0] + 1..pair[1]]).filter(|text| is_code(text)).collect()
}

fn is_code(text: &str) -> bool {
    text.len() >= 3
        && text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

fn alerts(tree: &Tree) -> Vec<Violation> {
    let mut violations = Vec::new();
    let rules = tree.texts().filter(|(path, _)| under(path, "deploy"));
    for (path, text) in rules.filter(|(path, _)| path.ends_with(".yml") || path.ends_with(".yaml")) {
        for (index, line) in text.lines().enumerate() {
            let line = line.trim().trim_start_matches("- ").trim_start();
            let Some(name) = line.strip_prefix("alert:") else { continue };
            let name = name.split('#').next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            let mut pages = tree.texts().map(|(path, _)| path).filter(|path| under(path, RUNBOOKS));
            let together = pages.any(|page| listed_alerts(tree, page).any(|alert| alert == name));
            if !together && !tree.has(&format!("{RUNBOOKS}/{name}.md")) {
                let message = format!("alert `{name}` has no runbook {RUNBOOKS}/{name}.md");
                violations.push(Violation::new(path, index + 1, message));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    const TABLE: &str = "// \"NOT_THIS\"\nlet code = (\"LEASE_BUSY\", 409);\n#[cfg(test)]\nmod tests { const X: &str = \"NOR_THIS\"; }\n";

    #[test]
    fn codes_and_pages_match() {
        assert!(
            shown(&[(CODES, TABLE), ("docs/errors/LEASE_BUSY.md", ""), ("docs/errors/README.md", "")])
                .is_empty()
        );
        let missing = shown(&[(CODES, TABLE), ("docs/errors/README.md", "")]);
        assert_eq!(
            missing,
            ["crates/service/src/code.rs:2: `LEASE_BUSY` has no page docs/errors/LEASE_BUSY.md"]
        );
        let ghost = shown(&[(CODES, TABLE), ("docs/errors/LEASE_BUSY.md", ""), ("docs/errors/GONE.md", "")]);
        assert_eq!(ghost, ["docs/errors/GONE.md:1: there is no code `GONE` in crates/service/src/code.rs"]);
    }

    #[test]
    fn codes_without_a_directory_of_pages_wait_and_an_empty_table_does_not() {
        assert!(shown(&[(CODES, TABLE)]).is_empty());
        assert_eq!(shown(&[(CODES, "enum Code {}"), ("docs/errors/README.md", "")]).len(), 1);
    }

    #[test]
    fn alerts_have_runbooks() {
        let rules = "groups:\n  - rules:\n      - alert: LeaseLost\n        expr: up\n";
        assert!(shown(&[("deploy/alerts.yml", rules), ("docs/runbooks/LeaseLost.md", "")]).is_empty());
        let together = ("docs/runbooks/leases/lost.md", "# lost\n\nAlerts: `Other`, `LeaseLost`.\n");
        assert!(shown(&[("deploy/alerts.yml", rules), together]).is_empty());
        let missing = shown(&[("deploy/alerts.yml", rules)]);
        assert_eq!(
            missing,
            ["deploy/alerts.yml:3: alert `LeaseLost` has no runbook docs/runbooks/LeaseLost.md"]
        );
    }
}
