//! `tenure doctor`.

use crate::rig::{Rig, said, tenure};

fn verdict<'a>(report: &'a serde_json::Value, check: &str) -> &'a str {
    let checks = report["checks"].as_array().unwrap();
    let found = checks.iter().find(|one| one["check"] == check);
    found.unwrap_or_else(|| panic!("no {check} in {report}"))["status"].as_str().unwrap()
}

#[test]
fn every_engine_passes_and_says_what_it_may_lose() {
    let rig = Rig::new();
    let embedded = format!("embedded:{}", rig.dir.path().join("data").display());
    for (store, loss) in [(rig.store(), "warn"), (embedded, "ok"), ("memory:".to_owned(), "warn")] {
        let said = said(tenure(rig.dir.path(), &["doctor", "--json", "--store", &store]));
        assert_eq!(said.code, 0, "{store}: {} {}", said.out, said.err);
        let report = said.json();
        assert_eq!(report["ok"], true);
        assert_eq!((verdict(&report, "lease"), verdict(&report, "loss")), ("ok", loss), "{report}");
        assert_eq!((verdict(&report, "store"), verdict(&report, "clock")), ("ok", "ok"), "{report}");
        assert_eq!(store.starts_with("embedded"), report.to_string().contains("MiB free"));
    }
    assert!(rig.json(&["lease", "ls"])["items"].as_array().unwrap().is_empty(), "nothing stays held");
}

#[test]
fn a_store_that_is_not_there_fails_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let said = said(tenure(dir.path(), &["doctor", "--store", "redis://127.0.0.1:1"]));
    assert_eq!(said.code, 1);
    assert!(said.out.contains("fail") && said.out.contains("is Redis running there?"), "{}", said.out);
}

#[test]
fn a_new_redis_is_explained() {
    let rig = Rig::new();
    let said = said(tenure(rig.dir.path(), &["doctor", "--store", &rig.redis.url()]));
    assert_eq!(said.code, 0, "{}", said.out);
    assert!(said.out.contains("quarantine_ms=0"), "{}", said.out);
}
