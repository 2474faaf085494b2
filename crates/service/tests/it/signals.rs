//! Signals, in a process of their own.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tenure_service::Shutdown;

const ROLE: &str = "SERVICE_TEST_WAITS_FOR_SIGNALS";

/// Not a test by itself: the process that the tests below send signals to.
#[tokio::test]
async fn process_that_drains_forever() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let say = |word: &str| {
        let mut out = std::io::stdout();
        writeln!(out, "\nsays {word}").and_then(|()| out.flush()).unwrap();
    };
    let shutdown = Shutdown::on_signals().unwrap();
    say("ready");
    shutdown.wait().await;
    say("draining");
    std::future::pending::<()>().await;
}

struct Waiting {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

fn waiting() -> Waiting {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "signals::process_that_drains_forever", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut waiting = Waiting { child, lines };
    waiting.hear("says ready");
    waiting
}

impl Waiting {
    fn hear(&mut self, word: &str) {
        assert!(self.lines.any(|line| line.unwrap() == word), "it ended before it said {word}");
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
    }
}

#[test]
fn the_first_signal_drains_and_the_second_exits_at_once() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let mut process = waiting();
        process.signal(signal);
        process.hear("says draining");
        process.signal(signal);
        assert_eq!(process.child.wait().unwrap().code(), Some(code));
    }
}
