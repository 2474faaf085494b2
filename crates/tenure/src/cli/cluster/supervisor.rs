//! Keeps the processes of the cluster, and ends them in order.

use std::process::ExitStatus;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use rustix::process::Signal;
use tenure_lease::Clock;
use tenure_store::BootClock;

use super::greeting::Greeting;
use super::member::{Member, describe_exit};
use super::plan::MemberPlan;
use crate::cli::run::Signals;
use crate::cli::{Result, Screen};

/// How long a process may take to end: longer than a drain.
const STOP_TIMEOUT: Duration = Duration::from_secs(75);
/// The pause before a process is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Restarts of one cluster. A process that always fails does not run forever.
const MAX_RESTARTS: usize = 100;

/// The processes of the cluster.
pub(super) struct Supervisor {
    members: Vec<Member>,
    signals: Signals,
    screen: Screen,
    restart: bool,
    restarts: usize,
}

impl Supervisor {
    pub(super) fn listen(screen: Screen, restart: bool) -> Result<Self> {
        let signals = Signals::listen()?;
        Ok(Self { members: Vec::new(), signals, screen, restart, restarts: 0 })
    }

    pub(super) fn screen(&self) -> &Screen {
        &self.screen
    }

    pub(super) fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.iter()
    }

    /// Starts a process and waits until it is ready.
    pub(super) async fn start(&mut self, plan: MemberPlan) -> Result<Greeting> {
        let member = Member::spawn(plan, self.screen)?.ready().await?;
        let greeting = member.greeting.clone();
        self.members.push(member);
        Ok(greeting)
    }

    /// Starts processes together.
    pub(super) async fn start_all(&mut self, plans: Vec<MemberPlan>) -> Result<()> {
        let starting = plans.into_iter().map(|plan| Member::spawn(plan, self.screen));
        let starting = starting.collect::<Result<Vec<_>>>()?;
        let mut outcome = Ok(());
        for ready in join_all(starting.into_iter().map(super::member::Starting::ready)).await {
            match ready {
                Ok(member) => self.members.push(member),
                Err(failure) => outcome = Err(failure),
            }
        }
        outcome
    }

    /// Runs until a signal, or until no process is left. Ends all of them.
    pub(super) async fn supervise(&mut self) {
        while !self.members.is_empty() {
            let (index, status) = tokio::select! {
                biased;
                _ = self.signals.next() => break,
                ended = next_end(&mut self.members) => ended,
            };
            let mut member = self.members.remove(index);
            member.finish_output().await;
            let name = member.name();
            let how = status.map(describe_exit).unwrap_or_else(|| "ended".to_owned());
            if !self.restart || self.restarts >= MAX_RESTARTS {
                let left = self.members.len();
                self.screen.error_line(&format!(
                    "cluster: {name} {how}; {left} processes are left (--restart starts it again)"
                ));
                continue;
            }
            self.screen.error_line(&format!("cluster: {name} {how}; starting it again"));
            self.restarts += 1;
            if !self.start_again(&member).await {
                break;
            }
        }
        self.shut_down().await;
    }

    /// Starts a member again at its addresses. Returns false if a signal came first.
    async fn start_again(&mut self, member: &Member) -> bool {
        let clock = BootClock;
        let plan = member.plan.at(&member.greeting);
        tokio::select! {
            biased;
            _ = self.signals.next() => return false,
            () = clock.sleep_until(clock.now() + RESTART_PAUSE) => {}
        }
        let starting = match Member::spawn(plan, self.screen) {
            Ok(starting) => starting,
            Err(failure) => {
                self.screen.error_line(&format!("cluster: {}", failure.detail()));
                return true;
            }
        };
        tokio::select! {
            biased;
            _ = self.signals.next() => return false,
            ready = starting.ready() => match ready {
                Ok(member) => self.members.push(member),
                Err(failure) => self.screen.error_line(&format!("cluster: {}", failure.detail())),
            }
        }
        true
    }

    /// Ends all processes: controllers, handlers, the global controller, the store.
    pub(super) async fn shut_down(&mut self) {
        let mut patient = true;
        for group in 0..=u8::MAX {
            if self.members.is_empty() {
                break;
            }
            let (ending, staying) = std::mem::take(&mut self.members)
                .into_iter()
                .partition(|member: &Member| member.plan.ends == group);
            self.members = staying;
            patient = self.end(ending, patient).await;
        }
    }

    /// Ends these processes. Returns false if a second signal asked to hurry.
    async fn end(&mut self, mut ending: Vec<Member>, patient: bool) -> bool {
        let signal = if patient { Signal::TERM } else { Signal::KILL };
        ending.iter().for_each(|member| member.signal(signal));
        let clock = BootClock;
        let patient = tokio::select! {
            biased;
            () = all_ended(&mut ending) => return patient,
            _ = self.signals.next() => false,
            () = clock.sleep_until(clock.now() + STOP_TIMEOUT) => patient,
        };
        ending.iter().for_each(|member| member.signal(Signal::KILL));
        all_ended(&mut ending).await;
        patient
    }
}

/// Waits until one of the processes ends. Cancel safe.
async fn next_end(members: &mut [Member]) -> (usize, Option<ExitStatus>) {
    let ends = members.iter_mut().map(|member| Box::pin(member.ended()));
    let (status, index, _) = select_all(ends).await;
    (index, status)
}

async fn all_ended(members: &mut [Member]) {
    join_all(members.iter_mut().map(async |member| {
        member.ended().await;
        member.finish_output().await;
    }))
    .await;
}
