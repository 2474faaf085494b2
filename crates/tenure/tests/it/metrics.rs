//! What `/metrics` of a running server shows: promtool finds nothing to complain about.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use tenure_testkit::{Process, wait};

use crate::harness::{LIMIT, tenure};

/// The body of `GET path`, over a connection of its own.
fn get(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: tenure\r\nConnection: close\r\n\r\n").unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[test]
fn the_metrics_of_a_server_pass_promtool_and_all_have_help() {
    let dir = tempfile::tempdir().unwrap();
    let args = ["up", "--listen", "127.0.0.1:0", "--store", "memory:", "--data-dir", "data"];
    let _server = Process::spawn(tenure(dir.path(), &args)).unwrap();
    let file = dir.path().join("data/address");
    wait::until("the server is up", LIMIT, || file.exists()).unwrap();
    let address = fs::read_to_string(file).unwrap().trim().to_owned();
    get(&address, "/health/ready");
    let text = get(&address, "/metrics");
    let names = |kind: &str| -> BTreeSet<&str> {
        text.lines().filter_map(|line| line.strip_prefix(kind)?.split(' ').next()).collect()
    };
    let (types, help) = (names("# TYPE "), names("# HELP "));
    assert!(types.is_subset(&help), "without HELP: {:?}", types.difference(&help).collect::<Vec<_>>());
    for name in ["tenure_build_info", "process_resident_memory_bytes", "tenure_http_requests_total"] {
        assert!(types.contains(name), "{name} is not in\n{text}");
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut promtool = promtool.spawn().unwrap();
    promtool.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = promtool.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}
