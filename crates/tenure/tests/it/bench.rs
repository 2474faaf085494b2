//! `tenure bench`.

use crate::harness::{Harness, run_command, tenure};

#[test]
fn stores_are_compared_in_one_table() {
    let harness = Harness::new();
    let store = harness.store();
    let args = ["bench", "--seconds", "1", "--clients", "4", "--store", "memory:", "--store", &store];
    let table = run_command(tenure(harness.dir.path(), &args));
    assert_eq!(table.code, 0, "{}", table.err);
    assert_eq!(table.out.lines().count(), 5, "{}", table.out);
    assert!(table.out.contains("RATIO") && table.out.contains('×'), "{}", table.out);

    let json = run_command(tenure(harness.dir.path(), &[&args[..7], &["--json"]].concat())).json();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    assert!(results.iter().all(|one| one["count"].as_u64().unwrap() > 0 && one["errors"] == 0), "{json}");
    assert!(harness.json(&["lease", "ls"])["items"].as_array().unwrap().is_empty(), "nothing stays held");
}

#[test]
fn a_bench_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    for bad in [["--clients", "0"], ["--clients", "5000"], ["--seconds", "100000"]] {
        let output = run_command(tenure(dir.path(), &["bench", "--store", "memory:", bad[0], bad[1]]));
        assert_eq!(output.code, 2, "{}", output.err);
    }
}
