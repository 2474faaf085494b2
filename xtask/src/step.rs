//! Runs steps with headings and durations, up to the first failure.
use std::fmt::Write as _;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::clock;

/// One step: name, summary and work.
pub(crate) struct Step<'a> {
    /// One word for headings and the summary.
    pub(crate) name: &'a str,
    /// The summary.
    pub(crate) what: String,
    /// The work itself.
    pub(crate) work: Box<dyn FnOnce() -> Result<()> + 'a>,
}

/// Runs the steps in order, stops at the first failure, and returns the summary line.
pub(crate) fn run(steps: Vec<Step<'_>>) -> Result<String> {
    let total = steps.len();
    let start = clock::start();
    let mut times = Vec::new();
    for (index, step) in steps.into_iter().enumerate() {
        let Step { name, what, work } = step;
        println!("==> {name}: {what}");
        let begun = clock::start();
        work().with_context(|| {
            format!(
                "failed at {name} (step {} of {total}) after {:.1} s",
                index + 1,
                start.elapsed().as_secs_f64()
            )
        })?;
        println!("    {name} passed in {:.1} s", begun.elapsed().as_secs_f64());
        times.push((name, begun.elapsed()));
    }
    Ok(summary(&times, start.elapsed()))
}

fn summary(times: &[(&str, Duration)], total: Duration) -> String {
    let mut line = format!("all {} steps passed in {:.1} s:", times.len(), total.as_secs_f64());
    for (name, time) in times {
        let _ = write!(line, " {name} {:.1}", time.as_secs_f64());
    }
    line
}

/// Runs a command with inherited streams; anything but success is an error that names it.
pub(crate) fn command(command: &mut Command) -> Result<()> {
    let line = display_command(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed with {status}");
    }
    Ok(())
}

/// The command as a shell line.
pub(crate) fn display_command(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let mut line = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
    for arg in command.get_args() {
        line.push(' ');
        line.push_str(&arg.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn step<'a>(name: &'a str, work: impl FnOnce() -> Result<()> + 'a) -> Step<'a> {
        Step { name, what: String::new(), work: Box::new(work) }
    }

    #[test]
    fn a_failure_ends_the_run_and_names_its_step() {
        let seen = RefCell::new(Vec::new());
        let steps = vec![
            step("one", || {
                seen.borrow_mut().push(1);
                Ok(())
            }),
            step("two", || bail!("broken")),
            step("three", || {
                seen.borrow_mut().push(3);
                Ok(())
            }),
        ];
        let error = format!("{:#}", run(steps).unwrap_err());
        assert!(error.starts_with("failed at two (step 2 of 3)") && error.ends_with("broken"), "{error}");
        assert_eq!(*seen.borrow(), [1]);
    }

    #[test]
    fn the_summary_counts_steps() {
        let line = run(vec![step("one", || Ok(())), step("two", || Ok(()))]).unwrap();
        assert!(line.starts_with("all 2 steps passed in ") && line.contains(" two "), "{line}");
    }

    #[test]
    fn a_command_that_fails_is_an_error() {
        let error = command(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().to_string();
        assert!(error.contains("sh -c exit 3") && error.contains('3'), "{error}");
        command(Command::new("sh").args(["-c", "true"])).unwrap();
    }
}
