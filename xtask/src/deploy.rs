//! Checks the files under deploy/ with the programs that read them.
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::step;
use crate::workspace::Workspace;

const RULES: &str = "deploy/prometheus/alerts.yaml";
const CASES: &str = "deploy/prometheus/alerts.test.yaml";
const DASHBOARD: &str = "deploy/grafana/tenure.json";
const UNIT: &str = "deploy/systemd/tenure.service";
/// The highest accepted exposure level of `systemd-analyze security`, in tenths.
const EXPOSURE: &str = "20";

/// The summary of this step.
pub(crate) fn headline() -> String {
    "promtool on alerts, their cases and the dashboard; systemd-analyze on the unit".into()
}

/// Fails at the first file that its program rejects.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    quiet(workspace.command("promtool").args(["check", "rules", RULES]))?;
    quiet(workspace.command("promtool").args(["test", "rules", CASES]))?;
    let dashboard = std::fs::read_to_string(workspace.root().join(DASHBOARD))
        .with_context(|| format!("cannot read {DASHBOARD}"))?;
    let queries = scratch(workspace, "dashboard.rules.json", &queries(&serde_json::from_str(&dashboard)?)?)?;
    quiet(workspace.command("promtool").args(["check", "rules"]).arg(queries))
        .with_context(|| format!("a query of {DASHBOARD} is not valid PromQL"))?;
    let unit = std::fs::read_to_string(workspace.root().join(UNIT))
        .with_context(|| format!("cannot read {UNIT}"))?;
    unit_verified(workspace, &scratch(workspace, "tenure.service", &stand_in(&unit))?)
}

/// Converts every query of a dashboard into a rule, so that promtool can check it.
fn queries(dashboard: &Value) -> Result<String> {
    let panels = dashboard["panels"].as_array().context("the dashboard has no panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.filter_map(|target| target["expr"].as_str());
    let rules: Vec<Value> = queries
        .enumerate()
        .map(|(index, query)| {
            json!({ "record": format!("query_{index}"), "expr": query.replace("$__rate_interval", "1m") })
        })
        .collect();
    ensure!(!rules.is_empty(), "the dashboard has no queries");
    Ok(json!({ "groups": [{ "name": "dashboard", "rules": rules }] }).to_string())
}

/// The unit with a program that exists on every machine, so that only the unit is checked.
fn stand_in(unit: &str) -> String {
    unit.replace("/usr/local/bin/tenure", "/bin/true")
}

fn unit_verified(workspace: &Workspace, unit: &Path) -> Result<()> {
    let mut verify = workspace.command("systemd-analyze");
    verify.args(["verify", "--man=no"]).arg(unit);
    let output = verify.output().context("cannot start systemd-analyze")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // It reports unknown settings as warnings, and also reports on other units of the machine.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("tenure.service")).collect();
    if !output.status.success() || !ours.is_empty() {
        bail!("`{}` reports problems in {UNIT}: {}", step::display_command(&verify), said.trim());
    }
    let threshold = format!("--threshold={EXPOSURE}");
    let args = ["security", "--offline=true", "--no-pager", &threshold];
    quiet(workspace.command("systemd-analyze").args(args).arg(unit))
        .with_context(|| format!("the exposure level of {UNIT} is too high"))
}

/// Writes an intermediate file.
fn scratch(workspace: &Workspace, name: &str, text: &str) -> Result<PathBuf> {
    let dir = workspace.target().join("xtask-deploy");
    std::fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let path = dir.join(name);
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Runs a command and shows its output only if it fails.
fn quiet(command: &mut Command) -> Result<()> {
    let line = step::display_command(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        bail!("`{line}` failed with {}\n{}{}", output.status, out, err);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_of_a_dashboard_become_rules() {
        let dashboard = json!({ "panels": [
            { "type": "row" },
            { "targets": [{ "expr": "rate(a[$__rate_interval])" }, { "expr": "b" }] },
        ] });
        let rules: Value = serde_json::from_str(&queries(&dashboard).unwrap()).unwrap();
        assert_eq!(rules["groups"][0]["rules"][0]["expr"], "rate(a[1m])");
        assert_eq!(rules["groups"][0]["rules"].as_array().unwrap().len(), 2);
        assert!(queries(&json!({ "panels": [] })).is_err());
    }

    #[test]
    fn a_failing_program_is_an_error_with_its_words() {
        let error = quiet(Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("out\nerr"), "{error}");
        quiet(Command::new("sh").args(["-c", "true"])).unwrap();
    }
}
