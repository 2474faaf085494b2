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

#[test]
fn a_damaged_embedded_store_is_refused_and_salvaged() {
    use std::os::unix::fs::FileExt;
    let dir = tempfile::tempdir().unwrap();
    let store = format!("embedded:{}", dir.path().join("data").display());
    let doctor = |arguments: &[&str]| {
        run_command(tenure(dir.path(), &[&["doctor", "--json", "--store", &store], arguments].concat()))
    };
    assert_eq!(doctor(&[]).code, 0);
    // The first frame after the one that begins the epoch, which others follow.
    let journal = std::fs::File::options().write(true).open(dir.path().join("data/journal-a.log")).unwrap();
    journal.write_all_at(b"damage", 48 + 30).unwrap();
    let refused = doctor(&[]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.out.contains("journal-a.log is damaged at offset 48"), "{}", refused.out);
    assert!(refused.out.contains("--salvage NEWDIR"), "{}", refused.out);
    let salvaged = doctor(&["--salvage", "saved"]);
    assert_eq!(salvaged.code, 0, "{}", salvaged.out);
    let report = salvaged.json();
    assert_eq!((verdict(&report, "salvage"), verdict(&report, "lost")), ("ok", "warn"), "{report}");
    assert!(report.to_string().contains("journal-a.log: bytes 48 to "), "{report}");
    let saved = run_command(tenure(dir.path(), &["doctor", "--store", "embedded:saved"]));
    assert_eq!(saved.code, 0, "{}", saved.out);
    let refused = run_command(tenure(dir.path(), &["doctor", "--store", "memory:", "--salvage", "other"]));
    assert_eq!(refused.code, 2, "{} {}", refused.out, refused.err);
}
