//! What a shell and its user meet: usage, errors, completions.

use crate::harness::{Harness, run_command, tenure};

#[test]
fn without_a_server_every_command_explains_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["lease", "ls"][..], &["run", "k", "--", "true"], &["login"]] {
        let output = run_command(tenure(dir.path(), args));
        assert_eq!(output.code, 69, "{args:?}");
        assert!(output.err.contains("tenure up") && output.err.contains("--store"), "{}", output.err);
    }
    let json = run_command(tenure(dir.path(), &["lease", "ls", "--json"]));
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(error["code"], "UNAVAILABLE");
    assert!(error["hint"].as_str().unwrap().contains("tenure up"));
}

#[test]
fn a_usage_error_names_the_argument() {
    let dir = tempfile::tempdir().unwrap();
    let table: [(&[&str], &str); 6] = [
        (&["lease", "get", "two words"], "key"),
        (&["lease", "acquire", "k", "--ttl", "15"], "15s"),
        (&["lease", "acquire", "k", "--ttl", "2d"], "24 h"),
        (&["lease", "renew", "k", "--token", "short", "--generation", "1"], "base64url"),
        (&["lease", "ls", "--store", "mysql://h"], "mysql://h"),
        (&["run", "k"], "COMMAND"),
    ];
    for (args, word) in table {
        let output = run_command(tenure(dir.path(), args));
        assert_eq!(output.code, 2, "{args:?}: {}", output.err);
        assert!(output.err.contains(word), "{args:?}: {}", output.err);
    }
}

#[test]
fn a_store_that_is_in_use_is_explained() {
    let harness = Harness::new();
    let store = format!("embedded:{}", harness.dir.path().join("data").display());
    let user = harness.run(&store, "k", &[], "echo ready; cat");
    user.wait_for_line(|line| line == "ready", crate::harness::LIMIT).unwrap();
    let output = run_command(tenure(harness.dir.path(), &["lease", "ls", "--store", &store]));
    assert_eq!(output.code, 69, "{}", output.err);
    assert!(output.err.contains("only one process can open"), "{}", output.err);
    user.close_stdin();
}

#[test]
fn a_password_is_not_printed() {
    let dir = tempfile::tempdir().unwrap();
    let output =
        run_command(tenure(dir.path(), &["lease", "ls", "--store", "redis://me:secret@127.0.0.1:1"]));
    assert_eq!(output.code, 69);
    assert!(output.err.contains("***@127.0.0.1:1") && !output.err.contains("secret"), "{}", output.err);
}

#[test]
fn the_effective_configuration_is_printed_with_its_sources() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tenure.toml"), "listen = \"127.0.0.1:7777\"\n").unwrap();
    let text = run_command(tenure(dir.path(), &["config"]));
    assert!(text.code == 0 && text.out.contains("127.0.0.1:7777"), "{} {}", text.out, text.err);
    let json = run_command(tenure(dir.path(), &["config", "--json"])).json();
    assert_eq!(json["listen"]["value"], "127.0.0.1:7777");
    assert!(json["listen"]["source"].as_str().unwrap().contains("tenure.toml"), "{json}");
    std::fs::write(dir.path().join("tenure.toml"), "listenn = 1\n").unwrap();
    let wrong = run_command(tenure(dir.path(), &["config"]));
    assert!(wrong.code == 2 && wrong.err.contains("listenn"), "{}", wrong.err);
}

#[test]
fn every_shell_has_completions() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let output = run_command(tenure(dir.path(), &["completions", shell]));
        assert!(
            output.code == 0
                && output.out.contains("doctor")
                && !output.out.contains("Print shell completions\n\n"),
            "{shell}"
        );
    }
    let version = run_command(tenure(dir.path(), &["--version"]));
    assert!(version.out.starts_with("tenure "), "{}", version.out);
}
