//! Cutting a plan down to what is needed for its failure.

use crate::judge::Invariant;
use crate::plan::{Kind, Plan};
use crate::run::{Run, run};

/// How many runs a shrinking may take.
const MAX_RUNS: usize = 3_000;

/// The smallest plan found that still breaks `invariant`, and its run.
pub fn shrink(plan: &Plan, invariant: Invariant) -> (Plan, Run) {
    let mut best = (plan.clone(), run(plan));
    let mut runs = 0;
    loop {
        let size = size(&best.0);
        let found = candidates(&best.0).into_iter().find_map(|plan| {
            runs += 1;
            let tried = (runs <= MAX_RUNS).then(|| run(&plan))?;
            let fails = tried.violations.iter().any(|violation| violation.invariant == invariant);
            fails.then_some((plan, tried))
        });
        match found {
            Some(smaller) if size_less(&smaller.0, size) => best = smaller,
            _ => return best,
        }
    }
}

fn size(plan: &Plan) -> usize {
    let cuts = plan.tasks.iter().filter(|task| task.cut_ms.is_some()).count();
    let rests = plan.tasks.iter().filter(|task| task.rest_ms > 0).count();
    let off = plan.hosts.iter().filter(|host| host.ppm != 0).count();
    usize::from(plan.repeats > 0) * 4
        + plan.faults.len() * 4
        + plan.tasks.len() * 4
        + plan.hosts.len() * 4
        + cuts
        + rests
        + off
}

fn size_less(plan: &Plan, than: usize) -> bool {
    size(plan) < than
}

/// Plans with one thing less, the greatest things first.
fn candidates(plan: &Plan) -> Vec<Plan> {
    let mut all = Vec::new();
    let last = plan.hosts.len() as u32 - 1;
    if last > 1 {
        let mut fewer = plan.clone();
        fewer.hosts.pop();
        fewer.tasks.retain(|task| task.host != last);
        fewer.faults.retain(|fault| host_of(fault.kind) != Some(last));
        all.push(fewer);
    }
    if plan.repeats > 0 {
        all.push(Plan { repeats: 0, ..plan.clone() });
    }
    for i in 0..plan.faults.len() {
        let mut fewer = plan.clone();
        fewer.faults.remove(i);
        all.push(fewer);
    }
    for i in (0..plan.tasks.len()).rev() {
        let mut fewer = plan.clone();
        fewer.tasks.remove(i);
        all.push(fewer);
    }
    for (i, task) in plan.tasks.iter().enumerate() {
        if task.cut_ms.is_some() {
            let mut calmer = plan.clone();
            calmer.tasks[i].cut_ms = None;
            all.push(calmer);
        }
        if task.rest_ms > 0 {
            let mut sooner = plan.clone();
            sooner.tasks[i].rest_ms = 0;
            all.push(sooner);
        }
    }
    for (i, host) in plan.hosts.iter().enumerate() {
        if host.ppm != 0 {
            let mut right = plan.clone();
            right.hosts[i].ppm = 0;
            all.push(right);
        }
    }
    all
}

fn host_of(kind: Kind) -> Option<u32> {
    match kind {
        Kind::Cut { host, .. }
        | Kind::Freeze { host }
        | Kind::Suspend { host }
        | Kind::Crash { host }
        | Kind::Reset { host }
        | Kind::Step { host, .. } => Some(host),
        Kind::Storm(_) => None,
    }
}
