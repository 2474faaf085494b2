//! A process of the cluster.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tenure_lease::Clock;
use tenure_store::BootClock;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::greeting::Greeting;
use super::plan::MemberPlan;
use crate::cli::screen::Paint;
use crate::cli::{Failure, Result, Screen};
use crate::watchdog::OWN_EXECUTABLE;

/// How long a process may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(120);
/// The width of names in front of log lines.
const NAME_WIDTH: usize = 5;

/// A process that was started.
pub(super) struct Member {
    pub(super) plan: MemberPlan,
    pub(super) greeting: Greeting,
    child: Child,
    /// Copies its output.
    output: JoinSet<()>,
}

impl Member {
    /// Starts a process in a group of its own, so that a signal of the terminal does not reach it.
    pub(super) fn spawn(plan: MemberPlan, screen: Screen) -> Result<Starting> {
        let mut command = Command::new(OWN_EXECUTABLE);
        command.args(&plan.args).process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.envs(plan.variables.iter().map(|(name, value)| (name, value)));
        let mut child =
            command.spawn().map_err(|error| Failure::internal(error.to_string()).during(&plan.name))?;
        let mut output = JoinSet::new();
        if let Some(log) = child.stderr.take() {
            output.spawn(copy_log(plan.name.clone(), log, screen));
        }
        Ok(Starting { plan, child, output })
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    /// Its process id and addresses.
    pub(super) fn describe(&self) -> String {
        let clients = self.greeting.clients.as_ref().map(|clients| format!(", clients {clients} (UDP)"));
        let pid = self.child.id().unwrap_or_default();
        format!("{}{} (process {pid})", self.greeting.address, clients.unwrap_or_default())
    }

    /// Waits until it ends. Cancel safe.
    pub(super) async fn ended(&mut self) -> Option<ExitStatus> {
        self.child.wait().await.ok()
    }

    /// Sends a signal. A process that has ended gets none.
    pub(super) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id as i32));
        if let Some(pid) = pid {
            // It ended just now.
            let _ended = kill_process(pid, signal);
        }
    }

    /// Waits until its whole output is copied.
    pub(super) async fn finish_output(&mut self) {
        while self.output.join_next().await.is_some() {}
    }
}

/// A process that has not printed its addresses yet.
pub(super) struct Starting {
    plan: MemberPlan,
    child: Child,
    output: JoinSet<()>,
}

impl Starting {
    /// Waits until it is ready.
    pub(super) async fn ready(mut self) -> Result<Member> {
        let clock = BootClock;
        let greeting = tokio::select! {
            greeting = self.greeting() => greeting,
            () = clock.sleep_until(clock.now() + START_TIMEOUT) => None,
        };
        let Some(greeting) = greeting else {
            drop(self.child.start_kill());
            let status = self.child.wait().await.map(describe_exit).unwrap_or_default();
            while self.output.join_next().await.is_some() {}
            return Err(Failure::unavailable(format!("{} did not start: {status}", self.plan.name))
                .hint("its log lines above say why"));
        };
        Ok(Member { plan: self.plan, greeting, child: self.child, output: self.output })
    }

    /// Its addresses; `None` if it ended.
    async fn greeting(&mut self) -> Option<Greeting> {
        let mut lines = BufReader::new(self.child.stdout.take()?).lines();
        let mut greeting = Greeting::default();
        while let Ok(Some(line)) = lines.next_line().await {
            if greeting.read(&line) {
                // Read on, so that the process never blocks on a full pipe.
                self.output.spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Some(greeting);
            }
        }
        None
    }
}

/// Copies log lines with the name of the process in front.
async fn copy_log(name: String, log: impl AsyncRead + Unpin, screen: Screen) {
    let mut lines = BufReader::new(log).lines();
    let prefix = screen.error_paint(Paint::Bold, &format!("{name:<NAME_WIDTH$} |"));
    while let Ok(Some(line)) = lines.next_line().await {
        screen.error_line(&format!("{prefix} {line}"));
    }
}

/// How a process ended.
pub(super) fn describe_exit(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(0), _) => "ended".to_owned(),
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn the_end_of_a_process_is_named() {
        assert_eq!(describe_exit(ExitStatus::from_raw(9)), "was killed by signal 9");
        assert_eq!(describe_exit(ExitStatus::from_raw(70 << 8)), "ended with exit code 70");
    }
}
