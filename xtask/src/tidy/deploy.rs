//! The files under deploy/: they parse, their references exist, and so do the settings that they set. PromQL and units are
//! checked by the step `deploy` of `cargo xtask test`.
use std::collections::BTreeSet;

use serde::Deserialize as _;
use serde_norway::Value;

use crate::tidy::Violation;
use crate::tidy::metrics::split_words;
use crate::tidy::tree::{Tree, under};

const DEPLOY: &str = "deploy";
const RUNBOOKS: &str = "docs/runbooks";
const DOCKERFILE: &str = "deploy/Dockerfile";
/// The table of settings.
const SPECS: &str = "crates/service/src/config/spec.rs";
/// Pages that name settings.
const PAGES: [&str; 2] = ["docs/deployment.md", "docs/observability.md"];
/// How long a drain and the end of its process may take.
const DRAIN_SECONDS: u64 = 75;
const SEVERITIES: [&str; 3] = ["critical", "warning", "info"];

/// The violations in the deployment files.
pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let mut violations = variables(tree);
    violations.extend(dockerfile(tree));
    let mut alerts = BTreeSet::new();
    for (path, text) in tree.texts().filter(|(path, _)| under(path, DEPLOY)) {
        let documents = match parse(path, text) {
            Ok(documents) => documents,
            Err(violation) => {
                violations.push(violation);
                continue;
            }
        };
        let mut found = Vec::new();
        for document in &documents {
            found.extend(rules(document, tree, &mut alerts));
            found.extend(compose(document, path, tree));
        }
        if under(path, "deploy/kubernetes") {
            found.extend(kubernetes(&documents, tree));
        }
        violations.extend(found.into_iter().map(|(near, message)| {
            let line = text.lines().position(|line| line.contains(&near)).map_or(1, |index| index + 1);
            Violation::new(path, line, message)
        }));
    }
    for (path, _) in tree.texts().filter(|(path, _)| under(path, RUNBOOKS)) {
        let name = path.rsplit('/').next().unwrap_or(path).trim_end_matches(".md");
        if name != "README"
            && !alerts.contains(name)
            && !listed_alerts(tree, path).any(|name| alerts.contains(name))
        {
            violations.push(Violation::new(path, 1, format!("there is no alert `{name}` in {DEPLOY}")));
        }
    }
    violations
}

/// The alerts that a page in a directory of runbooks lists in its line `Alerts:`. One page may cover several.
pub(super) fn listed_alerts<'a>(tree: &'a Tree, path: &str) -> impl Iterator<Item = &'a str> {
    let below = path.strip_prefix(RUNBOOKS).is_some_and(|rest| rest.matches('/').count() == 2);
    let text = if below { tree.text(path).unwrap_or_default() } else { "" };
    let lines = text.lines().filter_map(|line| line.strip_prefix("Alerts:"));
    lines.flat_map(|names| names.split('`').skip(1).step_by(2))
}

/// A word that locates the problem, and the message.
type Finding = (String, String);

/// The documents of a file in YAML or JSON; none for other files.
fn parse(path: &str, text: &str) -> Result<Vec<Value>, Violation> {
    if path.ends_with(".json") {
        let value: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| Violation::new(path, error.line(), format!("is not JSON: {error}")))?;
        return Ok(serde_norway::to_value(value).into_iter().collect());
    }
    if !path.ends_with(".yaml") && !path.ends_with(".yml") {
        return Ok(Vec::new());
    }
    let documents = serde_norway::Deserializer::from_str(text).map(|document| {
        let mut value = Value::deserialize(document)?;
        value.apply_merge()?;
        Ok(value)
    });
    documents.collect::<Result<_, serde_norway::Error>>().map_err(|error| {
        let line = error.location().map_or(1, |place| place.line());
        Violation::new(path, line, format!("is not YAML: {error}"))
    })
}

/// Every alert has a severity, a summary and a runbook.
fn rules(document: &Value, tree: &Tree, alerts: &mut BTreeSet<String>) -> Vec<Finding> {
    let mut found = Vec::new();
    for rule in list(&document["groups"]).flat_map(|group| list(&group["rules"])) {
        let Some(name) = rule["alert"].as_str() else { continue };
        if !alerts.insert(name.to_owned()) {
            found.push((name.to_owned(), format!("duplicate alert `{name}`")));
        }
        if !rule["labels"]["severity"].as_str().is_some_and(|word| SEVERITIES.contains(&word)) {
            found.push((
                name.to_owned(),
                format!("alert `{name}` has no severity of {}", SEVERITIES.join(", ")),
            ));
        }
        let runbook = format!("{RUNBOOKS}/{name}.md");
        let (summary, page) = (&rule["annotations"]["summary"], &rule["annotations"]["runbook"]);
        let together = page.as_str().is_some_and(|page| listed_alerts(tree, page).any(|alert| alert == name));
        if !summary.is_string() || !(together || page.as_str() == Some(runbook.as_str())) {
            let message = format!("alert `{name}` needs the annotations summary and runbook: {runbook}");
            found.push((name.to_owned(), message));
        }
    }
    found
}

/// The references of a service in a compose file exist.
fn compose(document: &Value, path: &str, tree: &Tree) -> Vec<Finding> {
    let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
    let has = |section: &str, name: &str| document[section].get(name).is_some();
    let mut found = Vec::new();
    let services = document["services"].as_mapping().into_iter().flatten();
    for (service, settings) in services.filter_map(|(name, settings)| Some((name.as_str()?, settings))) {
        let mut missing = |what: &str, name: &str| {
            found.push((
                name.to_owned(),
                format!("service `{service}` names the {what} `{name}`, which does not exist"),
            ));
        };
        let after = settings["depends_on"].as_mapping().into_iter().flatten();
        for name in after.filter_map(|(name, _)| name.as_str()).filter(|name| !has("services", name)) {
            missing("service", name);
        }
        for name in
            list(&settings["networks"]).filter_map(Value::as_str).filter(|name| !has("networks", name))
        {
            missing("network", name);
        }
        for mount in list(&settings["volumes"]).filter_map(Value::as_str) {
            let from = mount.split(':').next().unwrap_or(mount);
            match from.strip_prefix("./") {
                Some(file) if !tree.has(&format!("{dir}/{file}")) => missing("file", file),
                None if !has("volumes", from) => missing("volume", from),
                _ => {}
            }
        }
    }
    found
}

/// Objects have names, selectors match the pods, our secrets exist, there is one pod per store, and parts of meetings get
/// the time of a drain.
fn kubernetes(documents: &[Value], tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let workloads = documents.iter().filter(|object| {
        object["kind"].as_str().is_some_and(|kind| ["StatefulSet", "Deployment"].contains(&kind))
    });
    let pods: Vec<&Value> = workloads.map(|set| &set["spec"]["template"]["metadata"]["labels"]).collect();
    let secrets = tree.texts().filter(|(path, _)| under(path, "deploy/kubernetes"));
    let secrets: String = secrets.map(|(_, text)| text).collect();
    for object in documents {
        let kind = object["kind"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if kind.is_empty() || name.is_empty() || !object["apiVersion"].is_string() {
            found.push((kind.to_owned(), "an object has no apiVersion, kind or metadata.name".into()));
        }
        let volumes = list(&object["spec"]["volumeClaimTemplates"]).count();
        if kind == "StatefulSet" && volumes > 0 && object["spec"]["replicas"] != 1 {
            let message = "replicas must be 1: each pod has its own store and would grant the same keys";
            found.push(("replicas".into(), message.into()));
        }
        let spec = &object["spec"];
        let selectors = match kind {
            "Service" => vec![&spec["selector"]],
            "StatefulSet" | "Deployment" | "PodDisruptionBudget" => vec![&spec["selector"]["matchLabels"]],
            "NetworkPolicy" => vec![&spec["podSelector"]["matchLabels"]],
            _ => Vec::new(),
        };
        for selector in selectors {
            let fits = |labels: &&Value| {
                selector
                    .as_mapping()
                    .is_some_and(|wanted| wanted.iter().all(|(key, value)| &labels[key] == value))
            };
            if !pods.iter().any(fits) {
                found.push((kind.to_owned(), format!("the {kind} `{name}` selects no pod of this file")));
            }
        }
        let pod = &spec["template"]["spec"];
        let grace = pod["terminationGracePeriodSeconds"].as_u64().unwrap_or(30);
        let drains = |container: &Value| container["args"][0] == "mc" || container["args"][0] == "mh";
        if grace < DRAIN_SECONDS && list(&pod["containers"]).any(drains) {
            let message = format!("the {kind} `{name}` drains; it needs a grace period of {DRAIN_SECONDS} s");
            found.push(("terminationGracePeriodSeconds".into(), message));
        }
        let containers = list(&pod["containers"]);
        for variable in containers.flat_map(|container| list(&container["env"])) {
            let secret = variable["valueFrom"]["secretKeyRef"]["name"].as_str();
            if let Some(secret) = secret.filter(|secret| !secrets.contains(&format!("  name: {secret}\n"))) {
                found.push((secret.to_owned(), format!("the secret `{secret}` is in no file")));
            }
        }
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_sequence().into_iter().flatten()
}

/// The image is built with a recent compiler and does not run as root.
fn dockerfile(tree: &Tree) -> Vec<Violation> {
    let Some(text) = tree.text(DOCKERFILE) else { return Vec::new() };
    let mut violations = Vec::new();
    let wanted = tree.text("Cargo.toml").unwrap_or_default().lines();
    let wanted = wanted.filter_map(|line| line.strip_prefix("rust-version = ")).find_map(version);
    let lines = || text.lines().enumerate().map(|(index, line)| (index + 1, line));
    let image = lines().find_map(|(number, line)| Some((number, version(line.strip_prefix("FROM rust:")?)?)));
    match (image, wanted) {
        (Some((number, image)), Some(wanted)) if image < wanted => {
            let message = format!(
                "builds with Rust {}.{}, Cargo.toml requires {}.{}",
                image.0, image.1, wanted.0, wanted.1
            );
            violations.push(Violation::new(DOCKERFILE, number, message));
        }
        (None, _) => violations.push(Violation::new(DOCKERFILE, 1, "has no stage FROM rust:VERSION")),
        _ => {}
    }
    let user = lines().filter_map(|(_, line)| line.strip_prefix("USER ")).last().unwrap_or("root");
    if !user.starts_with(|c: char| matches!(c, '1'..='9')) {
        violations.push(Violation::new(
            DOCKERFILE,
            1,
            format!("runs as `{user}`; set a numeric user other than root"),
        ));
    }
    violations
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let text = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Variables of unknown settings: the process would refuse to start.
fn variables(tree: &Tree) -> Vec<Violation> {
    let known = settings(tree);
    if known.is_empty() {
        return Vec::new();
    }
    let mut violations = Vec::new();
    let files =
        tree.texts().filter(|(path, _)| under(path, DEPLOY) || under(path, RUNBOOKS) || PAGES.contains(path));
    for (path, text) in files {
        let set = split_words(text)
            .filter(|(_, word)| word.strip_prefix("TENURE_").is_some_and(|name| !name.is_empty()));
        for (line, word) in set.filter(|(_, word)| !known.contains(*word)) {
            violations.push(Violation::new(
                path,
                line,
                format!("there is no setting for the variable {word}"),
            ));
        }
    }
    violations
}

/// The variables of all settings, and those that sources read by name.
fn settings(tree: &Tree) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (path, text) in tree.texts().filter(|(path, _)| under(path, "crates") && path.ends_with(".rs")) {
        if !tree.is_test(path) {
            known.extend(
                split_words(text)
                    .filter(|(_, word)| word.starts_with("TENURE_"))
                    .map(|(_, word)| word.to_owned()),
            );
        }
    }
    let specs = tree.text(SPECS).unwrap_or_default();
    for open in ["Spec::new(", "count("] {
        for (at, _) in specs.match_indices(open) {
            let arguments = specs[at + open.len()..].trim_start();
            let mut literals = arguments.split('"');
            if let (Some(""), Some(section), Some(_), Some(name)) =
                (literals.next(), literals.next(), literals.next(), literals.next())
            {
                let section = if section.is_empty() { String::new() } else { format!("{section}__") };
                known.insert(format!("TENURE_{section}{name}").to_uppercase());
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn files_that_do_not_parse_are_named_with_the_line() {
        let found = shown(&[("deploy/a.yaml", "a: 1\nb: [1\n"), ("deploy/b.json", "{\n\"a\": }")]);
        assert!(found[0].starts_with("deploy/a.yaml:") && found[0].contains("is not YAML"), "{found:#?}");
        assert!(found[1].starts_with("deploy/b.json:2: is not JSON"), "{found:#?}");
        assert_eq!(shown(&[("deploy/a.yaml", "a: 1\na: 2\n")]).len(), 1, "duplicate key");
    }

    #[test]
    fn alerts_are_complete_and_runbooks_have_alerts() {
        let good = "groups:\n- rules:\n  - alert: Lost\n    labels: {severity: critical}\n    annotations: {summary: s, runbook: docs/runbooks/Lost.md}\n";
        assert!(
            shown(&[("deploy/a.yaml", good), ("docs/runbooks/Lost.md", ""), ("docs/runbooks/README.md", "")])
                .is_empty()
        );
        let bad = good.replace("critical", "loud").replace("Lost.md", "Last.md");
        let found = shown(&[("deploy/a.yaml", &bad), ("docs/runbooks/Gone.md", "")]);
        assert_eq!(found.len(), 3, "{found:#?}");
        assert!(found[0].starts_with("deploy/a.yaml:3: alert `Lost` has no severity"), "{found:#?}");
        assert_eq!(found[2], "docs/runbooks/Gone.md:1: there is no alert `Gone` in deploy");
    }

    #[test]
    fn what_a_compose_file_refers_to_is_there() {
        let text = "x: &x {networks: [back]}\nservices:\n  a:\n    <<: *x\n    depends_on: {b: {}}\n    volumes: ['./c.conf:/c', 'd:/d']\n";
        let found = shown(&[("deploy/compose.yaml", text)]);
        for what in ["service `b`", "network `back`", "file `c.conf`", "volume `d`"] {
            assert!(found.iter().any(|line| line.contains(what)), "{what}: {found:#?}");
        }
        let whole = format!("{text}  b: {{}}\nnetworks: {{back: {{}}}}\nvolumes: {{d: {{}}}}\n");
        assert!(shown(&[("deploy/compose.yaml", &whole), ("deploy/c.conf", "")]).is_empty());
    }

    #[test]
    fn one_pod_is_selected_and_its_secrets_exist() {
        let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata:\n  name: t\nspec:\n  replicas: 1\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n      - env: [{name: X, valueFrom: {secretKeyRef: {name: s}}}]\n";
        let service = "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: t\nspec: {selector: {a: b}}\n";
        let secret = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n";
        let path = "deploy/kubernetes/t.yaml";
        let with = |text: &str| shown(&[(path, text), ("deploy/kubernetes/s.yaml", secret)]);
        let whole = format!("{set}{service}");
        assert!(with(&whole).is_empty(), "{:#?}", with(&whole));
        let own = whole.replace("spec:\n  replicas: 1", "spec:\n  volumeClaimTemplates: [{}]\n  replicas: 2");
        assert!(with(&own)[0].starts_with("deploy/kubernetes/t.yaml:7: "), "two stores");
        assert!(with(&whole.replace("replicas: 1", "replicas: 2")).is_empty(), "one shared store");
        let part = whole.replace("- env:", "- args: [mc]\n        env:");
        assert!(with(&part)[0].contains("needs a grace period of 75 s"), "{:?}", with(&part));
        assert!(
            with(&whole.replace("{selector: {a: b}}", "{selector: {a: c}}"))[0].contains("selects no pod")
        );
        assert!(shown(&[(path, &whole)])[0].contains("the secret `s` is in no file"));
    }

    #[test]
    fn the_image_is_new_enough_and_not_root() {
        let with = |text: &str| shown(&[("Cargo.toml", "rust-version = \"1.95\"\n"), (DOCKERFILE, text)]);
        assert!(with("FROM rust:1.95-slim AS build\nFROM debian\nUSER 10001:10001\n").is_empty());
        assert_eq!(
            with("FROM rust:1.94-slim\nUSER 1\n"),
            ["deploy/Dockerfile:1: builds with Rust 1.94, Cargo.toml requires 1.95"]
        );
        assert_eq!(with("FROM rust:1.100\n").len(), 1);
        assert_eq!(with("FROM rust:2.0\nUSER 1\nUSER 0\n").len(), 1);
    }

    #[test]
    fn variables_are_settings() {
        let specs = "const fn count(\n    section: &str,\n) {}\nSpec::new(\"\", \"listen\", Kind::Address)\ncount(\"limits\", \"max_watchers\", 1)\n";
        let page = "TENURE_LISTEN=x TENURE_LIMITS__MAX_WATCHERS=1 TENURE_URL=u\nTENURE_LISTNE=x TENURE_*\n";
        let found = shown(&[
            (SPECS, specs),
            ("crates/tenure/src/cli.rs", "#[arg(env = \"TENURE_URL\")]"),
            ("deploy/a.env", page),
        ]);
        assert_eq!(found, ["deploy/a.env:2: there is no setting for the variable TENURE_LISTNE"]);
    }
}
