//! Alerts, dashboards and pages use only metrics that the sources record: a metric renamed in one place only would leave a
//! graph empty and an alert silent.
use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::Violation;
use crate::tidy::markdown::{row, spans};
use crate::tidy::tree::{Tree, under};

/// The list of HELP texts.
const CATALOG: &str = "crates/tenure/src/metrics.rs";
/// The page that documents every metric.
const PAGE: &str = "docs/observability.md";
const INVARIANTS: &str = "docs/invariants.md";
/// Files in which every word that looks like a metric must be one.
const READERS: [&str; 3] = ["deploy/prometheus", "deploy/grafana", "docs/runbooks"];
const KINDS: [&str; 3] = ["counter", "gauge", "histogram"];

/// A metric that the sources record.
struct Metric {
    kind: &'static str,
    path: String,
    line: usize,
}

/// Metrics that are used and never recorded, and metrics without documentation.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let (metrics, mut violations) = recorded(tree);
    if metrics.is_empty() {
        return violations;
    }
    let families: BTreeSet<&str> = metrics.keys().filter_map(|name| Some(name.split_once('_')?.0)).collect();
    let looks = |word: &str| {
        let parts = word.split_once('_').filter(|(_, rest)| !rest.is_empty());
        parts.is_some_and(|(family, _)| families.contains(family))
    };
    for (path, line, word) in used_names(tree).into_iter().filter(|(_, _, word)| looks(word)) {
        if !is_known(&metrics, word) {
            let message = format!("uses the metric `{word}`, which nothing in crates/ records");
            violations.push(Violation::new(path, line, message));
        }
    }
    let page = tree.text(PAGE).unwrap_or_default();
    let rows = page.lines().filter_map(row).filter_map(|cells| cells.into_iter().next());
    let explained: BTreeSet<String> =
        rows.flat_map(|cell| spans(&cell).into_iter().map(str::to_owned).collect::<Vec<_>>()).collect();
    for (name, metric) in metrics.iter().filter(|(name, _)| !explained.contains(*name)) {
        let message = format!("the {} `{name}` has no row in {PAGE}", metric.kind);
        violations.push(Violation::new(&metric.path, metric.line, message));
    }
    let catalog = tree.text(CATALOG).unwrap_or_default();
    for (name, metric) in metrics.iter().filter(|(name, _)| !catalog.contains(&format!("\"{name}\""))) {
        let message = format!("the {} `{name}` has no HELP text in {CATALOG}", metric.kind);
        violations.push(Violation::new(&metric.path, metric.line, message));
    }
    violations
}

/// Every metric that shipped code records, by name.
fn recorded(tree: &Tree) -> (BTreeMap<String, Metric>, Vec<Violation>) {
    let (mut metrics, mut violations) = (BTreeMap::new(), Vec::new());
    for (path, source) in tree.sources().filter(|(path, _)| under(path, "crates") && !tree.is_test(path)) {
        let product: BTreeSet<usize> = source.product_lines().map(|(line, _)| line).collect();
        let text = tree.text(path).unwrap_or_default();
        for kind in KINDS {
            let call = format!("metrics::{kind}!(");
            for (at, _) in source.code().match_indices(&call) {
                let line = source.line_of(at);
                if !product.contains(&line) {
                    continue;
                }
                let argument = text[at + call.len()..].trim_start();
                match argument.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
                    Some((name, _)) => {
                        metrics.insert(name.to_owned(), Metric { kind, path: path.to_owned(), line });
                    }
                    None => violations.push(Violation::new(
                        path,
                        line,
                        "names a metric by something else than a literal, so nothing can look for it",
                    )),
                }
            }
        }
    }
    (metrics, violations)
}

/// Words that may be metrics, with their locations.
fn used_names(tree: &Tree) -> Vec<(&str, usize, &str)> {
    let mut names = Vec::new();
    for (path, text) in tree.texts() {
        if READERS.iter().any(|dir| under(path, dir)) || path == PAGE {
            names.extend(split_words(text).map(|(line, word)| (path, line, word)));
        }
        if path == INVARIANTS {
            for (index, line) in text.lines().enumerate() {
                let last = line.trim().trim_end_matches('|').rsplit('|').next().unwrap_or_default();
                names.extend(spans(last).into_iter().map(|span| (path, index + 1, span)));
            }
        }
    }
    names
}

/// A histogram is also used by its parts.
fn is_known(metrics: &BTreeMap<String, Metric>, word: &str) -> bool {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| word.strip_suffix(part));
    let whole = parts.filter_map(|name| metrics.get(name)).any(|metric| metric.kind == "histogram");
    whole || metrics.contains_key(word)
}

/// The words of a text: letters, digits and underscores, with their lines.
pub(super) fn split_words(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(index, line)| {
        line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').map(move |word| (index + 1, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn f() {\n    metrics::counter!(\n        \"tenure_lease_lost_total\", \"reason\" => r\n    );\n    \
                        metrics::histogram!(\"tenure_store_sync_seconds\");\n}\n\
                        #[cfg(test)]\nmod tests { fn g() { metrics::gauge!(\"test_only\"); } }\n";
    const HELP: &str = "const X: [&str; 2] = [\"tenure_lease_lost_total\", \"tenure_store_sync_seconds\"];\n";
    const EXPLAINED: &str = "| metric | is |\n|---|---|\n| `tenure_lease_lost_total` | x |\n| `tenure_store_sync_seconds` | y |\n";

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        let mut all = vec![("crates/a/src/lib.rs", CODE)];
        if !files.iter().any(|(path, _)| *path == CATALOG) {
            all.push((CATALOG, HELP));
        }
        all.extend_from_slice(files);
        check(&Tree::of(&all)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_read_is_recorded() {
        let rules =
            "expr: rate(tenure_lease_lost_total[5m]) + tenure_store_sync_seconds_bucket{le=\"1\"} + up\n";
        assert!(shown(&[(PAGE, EXPLAINED), ("deploy/prometheus/a.yaml", rules)]).is_empty());
        let renamed = "\n{\"expr\": \"tenure_lease_gone_total + tenure_store_sync_seconds_max + tenure_lease_lost_total_count\"}";
        let found = shown(&[(PAGE, EXPLAINED), ("deploy/grafana/a.json", renamed)]);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert_eq!(
            found[0],
            "deploy/grafana/a.json:2: uses the metric `tenure_lease_gone_total`, which nothing in crates/ records"
        );
    }

    #[test]
    fn the_invariants_name_metrics_that_exist() {
        let table = "| id | test | metric |\n|---|---|---|\n| I-1 | `lease_test_name` | `tenure_lease_gone_total` |\n| I-2 | `t` | none |\n";
        let found = shown(&[(PAGE, EXPLAINED), (INVARIANTS, table)]);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert!(found[0].starts_with("docs/invariants.md:3: "), "{found:#?}");
    }

    #[test]
    fn every_metric_has_a_row() {
        let found = shown(&[(PAGE, "| `tenure_lease_lost_total` | x |\n")]);
        assert_eq!(
            found,
            [
                "crates/a/src/lib.rs:5: the histogram `tenure_store_sync_seconds` has no row in docs/observability.md"
            ]
        );
    }

    #[test]
    fn every_metric_has_a_help_text() {
        let found = shown(&[(PAGE, EXPLAINED), (CATALOG, "const X: &str = \"tenure_lease_lost_total\";\n")]);
        assert_eq!(
            found,
            [
                "crates/a/src/lib.rs:5: the histogram `tenure_store_sync_seconds` has no HELP text in crates/tenure/src/metrics.rs"
            ]
        );
    }

    #[test]
    fn a_name_that_is_no_literal_is_a_violation() {
        let found =
            shown(&[(PAGE, EXPLAINED), ("crates/b/src/lib.rs", "fn f() { metrics::gauge!(NAME); }\n")]);
        assert_eq!(found.len(), 1, "{found:#?}");
    }
}
