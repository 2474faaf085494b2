//! What a shell and its user meet: usage, errors, completions.

use crate::rig::{Rig, said, tenure};

#[test]
fn without_a_server_every_command_says_how_to_start_one() {
    let dir = tempfile::tempdir().unwrap();
    for args in [&["lease", "ls"][..], &["run", "k", "--", "true"], &["login"]] {
        let said = said(tenure(dir.path(), args));
        assert_eq!(said.code, 69, "{args:?}");
        assert!(said.err.contains("tenure up") && said.err.contains("--store"), "{}", said.err);
    }
    let json = said(tenure(dir.path(), &["lease", "ls", "--json"]));
    let error: serde_json::Value = serde_json::from_str(&json.err).unwrap();
    assert_eq!(error["code"], "UNAVAILABLE");
    assert!(error["hint"].as_str().unwrap().contains("tenure up"));
}

#[test]
fn wrong_usage_names_the_argument() {
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
        let said = said(tenure(dir.path(), args));
        assert_eq!(said.code, 2, "{args:?}: {}", said.err);
        assert!(said.err.contains(word), "{args:?}: {}", said.err);
    }
}

#[test]
fn a_folder_in_use_is_explained() {
    let rig = Rig::new();
    let store = format!("embedded:{}", rig.dir.path().join("data").display());
    let user = rig.run(&store, "k", &[], "echo ready; cat");
    user.wait_for_line(|line| line == "ready", crate::rig::LIMIT).unwrap();
    let said = said(tenure(rig.dir.path(), &["lease", "ls", "--store", &store]));
    assert_eq!(said.code, 69, "{}", said.err);
    assert!(said.err.contains("one process opens a folder"), "{}", said.err);
    user.close_stdin();
}

#[test]
fn a_password_is_not_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let said = said(tenure(dir.path(), &["lease", "ls", "--store", "redis://me:secret@127.0.0.1:1"]));
    assert_eq!(said.code, 69);
    assert!(said.err.contains("***@127.0.0.1:1") && !said.err.contains("secret"), "{}", said.err);
}

#[test]
fn the_configuration_in_force_is_shown_with_its_sources() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tenure.toml"), "listen = \"127.0.0.1:7777\"\n").unwrap();
    let text = said(tenure(dir.path(), &["config"]));
    assert!(text.code == 0 && text.out.contains("127.0.0.1:7777"), "{} {}", text.out, text.err);
    let json = said(tenure(dir.path(), &["config", "--json"])).json();
    assert_eq!(json["listen"]["value"], "127.0.0.1:7777");
    assert!(json["listen"]["source"].as_str().unwrap().contains("tenure.toml"), "{json}");
    std::fs::write(dir.path().join("tenure.toml"), "listenn = 1\n").unwrap();
    let wrong = said(tenure(dir.path(), &["config"]));
    assert!(wrong.code == 2 && wrong.err.contains("listenn"), "{}", wrong.err);
}

#[test]
fn every_shell_has_completions() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish"] {
        let said = said(tenure(dir.path(), &["completions", shell]));
        assert!(
            said.code == 0
                && said.out.contains("doctor")
                && !said.out.contains("Print completions for a shell\n\n"),
            "{shell}"
        );
    }
    let version = said(tenure(dir.path(), &["--version"]));
    assert!(version.out.starts_with("tenure "), "{}", version.out);
}
