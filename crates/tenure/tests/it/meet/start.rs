//! The start of the parts: what is missing is named, and shared secrets are made on first use.

use std::path::Path;
use std::process::Command;

use tenure_testkit::{Process, RedisServer};

use crate::harness::{LIMIT, code, known_new, run_command, tenure};

/// A command without any variable of meetings.
fn bare(dir: &Path, args: &[&str]) -> Command {
    let mut command = tenure(dir, args);
    for name in ["MC_BINDING_TOKEN_SECRET", "TENURE_SEAL_KEY", "REDIS_URL", "AC_ENDPOINT"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn a_start_names_all_settings_that_are_missing_or_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = bare(dir.path(), &["mh", "--data-dir", "data"]);
    command.env("MH_ID", "a:b").env("MC_ID", "overridden").env("GC_GRPC_URL", "gc:50051");
    let refused = run_command(command);
    assert_eq!(refused.code, 2, "{}", refused.err);
    for fault in [
        "meet.id: must have at most 64",
        "tenure mh shares one store",
        "AC_ENDPOINT is not set",
        "GC_GRPC_URL: \"gc:50051\" must be a URL",
        "MH_CLIENT_SECRET is not set",
        "tenure secrets export --role mh",
    ] {
        assert!(refused.err.contains(fault), "{fault}: {}", refused.err);
    }
}

#[test]
fn a_shared_store_needs_no_variable_and_a_second_node_names_the_command_for_its_secrets() {
    let redis = RedisServer::start().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let store = known_new(&redis.url());
    let args = |data: &'static str| {
        ["up", "--only", "meet", "--store", &store, "--listen", "127.0.0.1:0", "--data-dir", data]
            .map(str::to_owned)
    };
    let up = |data| bare(dir.path(), &args(data).each_ref().map(String::as_str));
    let started = |process: &Process| {
        process.wait_for_line(|line| line.starts_with("Press Ctrl-C"), LIMIT).unwrap();
    };
    let first = Process::spawn(up("one")).unwrap();
    started(&first);
    let refused = run_command(up("two"));
    assert_eq!(refused.code, 2, "{}", refused.err);
    for name in
        ["MC_BINDING_TOKEN_SECRET", "TENURE_SEAL_KEY", "tenure secrets export --role up --data-dir DIR"]
    {
        assert!(refused.err.contains(name), "{name}: {}", refused.err);
    }
    let none = run_command(bare(dir.path(), &["secrets", "export", "--data-dir", "two"]));
    assert_eq!(none.code, 1, "{}", none.err);
    let exported = run_command(bare(dir.path(), &["secrets", "export", "--role", "up", "--data-dir", "one"]));
    let secrets: Vec<(&str, &str)> = exported.out.lines().map(|line| line.split_once('=').unwrap()).collect();
    assert_eq!(secrets.len(), 4, "{}", exported.out);
    let mut command = up("two");
    command.envs(secrets);
    let second = Process::spawn(command).unwrap();
    started(&second);
    // The first node starts again from its files.
    first.terminate().unwrap();
    assert_eq!(code(&first), 0);
    let again = Process::spawn(up("one")).unwrap();
    started(&again);
    for process in [&again, &second] {
        process.terminate().unwrap();
        assert_eq!(code(process), 0);
    }
}
