//! `tenure doctor`.

use crate::harness::{Harness, run_command, tenure};

fn verdict<'a>(report: &'a serde_json::Value, check: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|one| one["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report}"))["status"].as_str().unwrap()
}

#[test]
fn every_engine_passes_and_reports_its_durability() {
    let harness = Harness::new();
    let embedded = format!("embedded:{}", harness.dir.path().join("data").display());
    for (store, loss) in [(harness.store(), "warn"), (embedded, "ok"), ("memory:".to_owned(), "warn")] {
        let output = run_command(tenure(harness.dir.path(), &["doctor", "--json", "--store", &store]));
        assert_eq!(output.code, 0, "{store}: {} {}", output.out, output.err);
        let report = output.json();
        assert_eq!(report["ok"], true);
        assert_eq!((verdict(&report, "lease"), verdict(&report, "durability")), ("ok", loss), "{report}");
        assert_eq!((verdict(&report, "store"), verdict(&report, "clock")), ("ok", "ok"), "{report}");
        assert_eq!(store.starts_with("embedded"), report.to_string().contains("MiB free"));
    }
    assert!(harness.json(&["lease", "ls"])["items"].as_array().unwrap().is_empty(), "nothing stays held");
}

#[test]
fn an_unavailable_store_fails_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let output = run_command(tenure(dir.path(), &["doctor", "--store", "redis://127.0.0.1:1"]));
    assert_eq!(output.code, 1);
    assert!(
        output.out.contains("fail") && output.out.contains("check that the store's server is running"),
        "{}",
        output.out
    );
}

#[test]
fn a_new_redis_is_explained() {
    let harness = Harness::new();
    let output = run_command(tenure(harness.dir.path(), &["doctor", "--store", &harness.redis.url()]));
    assert_eq!(output.code, 0, "{}", output.out);
    assert!(output.out.contains("quarantine_ms=0"), "{}", output.out);
}
