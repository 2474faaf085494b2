//! The walls between crates: dependencies that must not exist. They apply to normal dependencies:
//! transitively in the workspace, and to other packages where a crate of the workspace names them.
use std::collections::{BTreeMap, VecDeque};

use crate::metadata::{Dependency, Graph};
use crate::tidy::Violation;
use crate::tidy::tree::Tree;

/// A wall. Crates are named by patterns with `*` at either end; a pattern may name crates that do not exist yet.
enum Wall {
    /// These crates and their dependencies in the workspace do not use these packages.
    Without { crates: &'static [&'static str], packages: &'static [&'static str] },
    /// These crates and their dependencies in the workspace do not use this package with this feature.
    WithoutFeature { crates: &'static [&'static str], package: &'static str, feature: &'static str },
    /// These crates do not draw randomness from the operating system.
    NoSystemRandomness { crates: &'static [&'static str] },
    /// There is no path from one to the other, unless the target is also in `but`.
    NoPath { from: &'static [&'static str], to: &'static [&'static str], but: &'static [&'static str] },
    /// Only these crates, and those that never ship, use these packages.
    OnlyIn { packages: &'static [&'static str], crates: &'static [&'static str] },
    /// Only these crates, and those that never ship, use these crates of the workspace.
    OnlyUsedBy { used: &'static [&'static str], by: &'static [&'static str] },
}

const PURE: &[&str] = &["lease", "session"];
const SERVICES: &[&str] = &["lease-api", "session-api", "session-worker", "control", "poller", "meet-*"];
const MEETING_PARTS: &[&str] = &["meet-wire", "meet-rpc"];
const LEASES: &[&str] = &["lease", "lease-*"];
/// The network client.
const CLIENT: &[&str] = &["lease-client"];
const CLIENT_IS_LIGHT: &str = "the network client compiles without an HTTP server and without engines";
/// Crates that never ship are exempt.
const WORKSHOP: &[&str] =
    &["benches", "examples", "fuzzing", "interleave", "sim", "testkit", "testkit-meet", "xtask"];

const WALLS: &[(Wall, &str)] = &[
    (
        Wall::Without {
            crates: PURE,
            packages: &[
                "tokio",
                "tokio-*",
                "async-std",
                "smol",
                "futures",
                "futures-executor",
                "mio",
                "serde",
                "serde_*",
                "postcard",
                "bincode",
                "rmp-serde",
                "ciborium",
                "prost",
                "toml",
                "hyper",
                "hyper-*",
                "http",
                "reqwest",
                "axum",
                "tonic",
                "tonic-*",
                "quinn",
                "rustls",
                "redis",
                "fjall",
                "redb",
                "rustix",
                "nix",
                "libc",
            ],
        },
        "the types and rules know no runtime, no serializer, no network",
    ),
    (Wall::NoSystemRandomness { crates: PURE }, "randomness is handed in, so that it can be simulated"),
    (
        Wall::NoPath { from: &["session-api"], to: &["lease-store", "lease-keeper"], but: &[] },
        "the session API records an intent; only the worker acquires",
    ),
    (
        Wall::NoSystemRandomness { crates: &["meet-wire"] },
        "what meetings put on the wire is made of randomness that was handed in",
    ),
    (Wall::NoPath { from: &["session"], to: LEASES, but: &[] }, "sessions do not depend on leases"),
    (
        Wall::NoPath { from: &["host"], to: &["lease-*"], but: &[] },
        "a clock and randomness come without an engine",
    ),
    (Wall::NoPath { from: &["hints"], to: LEASES, but: &[] }, "hints know nothing of leases"),
    (
        Wall::NoPath { from: &["service"], to: &["lease", "lease-*", "session"], but: &[] },
        "the common crate does not depend on a domain",
    ),
    (
        Wall::NoPath { from: &["lease-keeper"], to: &["lease-store"], but: &[] },
        "the keeper is generic over lease::Store; engines belong to its tests",
    ),
    (
        Wall::OnlyIn {
            packages: &[
                "redis",
                "fred",
                "rustis",
                "fjall",
                "redb",
                "rusqlite",
                "sled",
                "etcd-client",
                "etcd-rs",
            ],
            crates: &["*-store"],
        },
        "only store crates know an engine",
    ),
    (
        Wall::NoPath { from: &["meet-*"], to: SERVICES, but: MEETING_PARTS },
        "services never depend on each other; meetings share meet-wire and meet-rpc",
    ),
    (
        Wall::NoPath {
            from: &["lease-api", "session-api", "session-worker", "control", "poller"],
            to: SERVICES,
            but: &[],
        },
        "services never depend on each other",
    ),
    (Wall::Without { crates: CLIENT, packages: &["axum", "utoipa", "redb", "redis"] }, CLIENT_IS_LIGHT),
    // axum comes with this feature.
    (Wall::WithoutFeature { crates: CLIENT, package: "tonic", feature: "router" }, CLIENT_IS_LIGHT),
    (
        Wall::NoPath { from: CLIENT, to: &["service", "lease-store", "lease-keeper", "lease-api"], but: &[] },
        CLIENT_IS_LIGHT,
    ),
    (
        Wall::OnlyUsedBy { used: &["lease-wire"], by: &["lease-api", "lease-client"] },
        "messages of the lease service are converted by its server and its client",
    ),
    (
        Wall::OnlyUsedBy { used: SERVICES, by: &["tenure", "meet-*"] },
        "only the binary depends on the services",
    ),
    (
        Wall::OnlyUsedBy { used: &["tenure"], by: &[] },
        "the binary may use everything, and nothing may use the binary",
    ),
    (Wall::OnlyUsedBy { used: WORKSHOP, by: &[] }, "what never ships is used in tests only"),
];

/// Dependencies that cross a wall, at the line of the manifest where the path starts.
pub(super) fn check(tree: &Tree, graph: &Graph) -> Vec<Violation> {
    let mut violations = Vec::new();
    for name in graph.packages.keys() {
        let paths = paths(graph, name);
        for (wall, why) in WALLS {
            for path in crossings(wall, graph, name, &paths) {
                violations.push(violation(tree, graph, &path, why));
            }
        }
    }
    violations
}

/// The shortest path from `start` to every crate of the workspace that it reaches, itself included.
fn paths<'a>(graph: &'a Graph, start: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut paths = BTreeMap::from([(start, vec![start])]);
    let mut queue = VecDeque::from([start]);
    while let Some(name) = queue.pop_front() {
        for dependency in &graph.packages[name].dependencies {
            let next = dependency.name.as_str();
            if graph.packages.contains_key(next) && !paths.contains_key(next) {
                let mut path = paths[name].clone();
                path.push(next);
                paths.insert(next, path);
                queue.push_back(next);
            }
        }
    }
    paths
}

/// The paths from `name` that cross the wall.
fn crossings<'a>(
    wall: &Wall,
    graph: &'a Graph,
    name: &str,
    paths: &BTreeMap<&'a str, Vec<&'a str>>,
) -> Vec<Vec<&'a str>> {
    let direct = |path: &Vec<&'a str>, bad: &dyn Fn(&Dependency) -> bool| -> Vec<Vec<&'a str>> {
        let dependencies =
            path.last().map(|last| graph.packages[*last].dependencies.as_slice()).unwrap_or_default();
        let bad = dependencies.iter().filter(|dependency| bad(dependency));
        bad.map(|dependency| [path.as_slice(), &[dependency.name.as_str()]].concat()).collect()
    };
    let workshop = matches(WORKSHOP, name);
    match wall {
        Wall::Without { crates, packages } if matches(crates, name) => paths
            .values()
            .flat_map(|path| direct(path, &|dependency| matches(packages, &dependency.name)))
            .collect(),
        Wall::WithoutFeature { crates, package, feature } if matches(crates, name) => paths
            .values()
            .flat_map(|path| direct(path, &|used| has_feature(used, package, feature)))
            .collect(),
        Wall::NoSystemRandomness { crates } if matches(crates, name) => {
            paths.values().flat_map(|path| direct(path, &draws_from_system)).collect()
        }
        Wall::NoPath { from, to, but } if matches(from, name) => {
            let reached = paths.iter().filter(|(to_name, path)| path.len() > 1 && matches(to, to_name));
            reached.filter(|(to_name, _)| !matches(but, to_name)).map(|(_, path)| path.clone()).collect()
        }
        Wall::OnlyIn { packages, crates } if !matches(crates, name) && !workshop => {
            let own = paths.values().filter(|path| path.len() == 1);
            own.flat_map(|path| direct(path, &|dependency| matches(packages, &dependency.name))).collect()
        }
        Wall::OnlyUsedBy { used, by } if !matches(by, name) && !workshop => {
            let reached = paths.iter().filter(|(to_name, path)| path.len() == 2 && matches(used, to_name));
            reached.map(|(_, path)| path.clone()).collect()
        }
        _ => Vec::new(),
    }
}

fn has_feature(dependency: &Dependency, package: &str, feature: &str) -> bool {
    dependency.name == package && dependency.features.iter().any(|enabled| enabled == feature)
}

fn draws_from_system(dependency: &Dependency) -> bool {
    let asks = |feature: &str| dependency.features.iter().any(|asked| asked == feature);
    match dependency.name.as_str() {
        "getrandom" => true,
        "uuid" => ["v4", "v7"].into_iter().any(asks),
        "rand" => dependency.defaults || ["os_rng", "sys_rng", "thread_rng"].into_iter().any(asks),
        _ => false,
    }
}

fn matches(patterns: &[&str], name: &str) -> bool {
    patterns.iter().any(|pattern| match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(end), _) => name.ends_with(end),
        (_, Some(start)) => name.starts_with(start),
        _ => *pattern == name,
    })
}

fn violation(tree: &Tree, graph: &Graph, path: &[&str], why: &str) -> Violation {
    let package = &graph.packages[path[0]];
    let manifest = format!("{}/Cargo.toml", package.dir);
    let dependency = package.dependencies.iter().find(|dependency| dependency.name == path[1]);
    let published = dependency.map_or(path[1], |dependency| dependency.published.as_str());
    let declares = |line: &str| {
        let rest = line.trim_start().trim_matches('"').strip_prefix(published);
        rest.is_some_and(|rest| rest.starts_with(['.', ' ', '=', '"']))
    };
    let line =
        tree.text(&manifest).and_then(|text| text.lines().position(declares)).map_or(1, |index| index + 1);
    Violation::new(&manifest, line, format!("{} crosses a wall: {why}", path.join(" -> ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Crates by name, with their dependencies.
    type Packages<'a> = &'a [(&'a str, &'a [&'a str])];

    /// The violations in a workspace of these crates and dependencies.
    fn crossing(packages: Packages<'_>) -> Vec<String> {
        messages(packages).iter().map(|m| m.split(" crosses").next().unwrap_or_default().to_owned()).collect()
    }

    fn messages(packages: Packages<'_>) -> Vec<String> {
        let packages: Vec<(&str, &str, &[&str])> =
            packages.iter().map(|(name, on)| (*name, *name, *on)).collect();
        check(&Tree::of(&[]), &Graph::of(&packages)).into_iter().map(|v| v.message).collect()
    }

    #[test]
    fn the_planned_workspace_stands_within_its_walls() {
        let crossing = crossing(&[
            ("lease", &["async-trait", "sha2", "thiserror"]),
            ("host", &["lease", "tokio", "rand", "rustix"]),
            ("lease-store", &["lease", "host", "tokio", "redis", "fjall", "postcard"]),
            ("lease-keeper", &["lease", "tokio"]),
            ("lease-wire", &["lease", "prost", "tonic"]),
            ("lease-client", &["lease", "lease-wire", "tokio", "tonic"]),
            ("lease-api", &["lease", "lease-wire", "service", "tonic"]),
            ("session", &["thiserror"]),
            ("session-store", &["session", "redis"]),
            ("session-api", &["session", "session-store", "service"]),
            ("session-worker", &["session", "session-store", "lease-store", "lease-keeper", "service"]),
            ("service", &["tokio", "serde"]),
            ("meet-wire", &["prost"]),
            ("meet-rpc", &["meet-wire"]),
            ("meet-client", &["meet-wire"]),
            ("meet-mc", &["meet-wire", "meet-rpc", "lease-keeper"]),
            ("hints", &["rustix"]),
            ("tenure", &["lease-api", "session-api", "session-worker", "meet-mc"]),
            ("testkit", &["redis"]),
            ("sim", &["lease", "session-worker", "testkit"]),
            ("benches", &["redis", "tenure"]),
        ]);
        assert_eq!(crossing, Vec::<String>::new());
    }

    #[test]
    fn each_wall_stops_its_crossing() {
        let cases: &[(Packages<'_>, &str)] = &[
            (&[("lease", &["tokio"])], "lease -> tokio"),
            (&[("session", &["serde_json"])], "session -> serde_json"),
            (&[("lease", &["helper"]), ("helper", &["hyper"])], "lease -> helper -> hyper"),
            (&[("lease", &["rand"])], "lease -> rand"),
            (&[("meet-wire", &["getrandom"])], "meet-wire -> getrandom"),
            (&[("session", &["lease"]), ("lease", &[])], "session -> lease"),
            (&[("host", &["lease-store"]), ("lease-store", &[])], "host -> lease-store"),
            (&[("hints", &["lease"]), ("lease", &[])], "hints -> lease"),
            (&[("service", &["lease"]), ("lease", &[])], "service -> lease"),
            (&[("service", &["lease-store"]), ("lease-store", &[])], "service -> lease-store"),
            (&[("service", &["session"]), ("session", &[])], "service -> session"),
            (&[("lease-keeper", &["lease-store"]), ("lease-store", &[])], "lease-keeper -> lease-store"),
            (
                &[("session-api", &["service"]), ("service", &["lease-keeper"]), ("lease-keeper", &[])],
                "session-api -> service -> lease-keeper",
            ),
            (&[("poller", &["redis"])], "poller -> redis"),
            (&[("lease-client", &["axum"])], "lease-client -> axum"),
            (&[("lease-client", &["lease-store"]), ("lease-store", &[])], "lease-client -> lease-store"),
            (&[("poller", &["lease-wire"]), ("lease-wire", &[])], "poller -> lease-wire"),
            (&[("tenure", &["fjall"])], "tenure -> fjall"),
            (&[("lease-keeper", &["etcd-client"])], "lease-keeper -> etcd-client"),
            (&[("poller", &["control"]), ("control", &[])], "poller -> control"),
            (&[("meet-mc", &["meet-gc"]), ("meet-gc", &[])], "meet-mc -> meet-gc"),
            (&[("meet-mc", &["meet-client"]), ("meet-client", &[])], "meet-mc -> meet-client"),
            (&[("meet-mc", &["poller"]), ("poller", &[])], "meet-mc -> poller"),
            (&[("service", &["control"]), ("control", &[])], "service -> control"),
            (&[("sim2", &["tenure"]), ("tenure", &[])], "sim2 -> tenure"),
            (&[("lease-store", &["testkit"]), ("testkit", &[])], "lease-store -> testkit"),
        ];
        for (packages, expected) in cases {
            let crossing = crossing(packages);
            assert!(crossing.iter().any(|path| path == expected), "{expected}: {crossing:?}");
        }
        let said: Vec<String> = cases.iter().flat_map(|(packages, _)| messages(packages)).collect();
        for (_, why) in WALLS {
            assert!(said.iter().any(|message| message.ends_with(&format!(": {why}"))), "no case for: {why}");
        }
    }

    #[test]
    fn a_feature_is_forbidden_only_with_its_package() {
        let dependency = Dependency {
            name: "tonic".into(),
            published: "tonic".into(),
            defaults: false,
            features: vec!["codegen".into(), "router".into()],
        };
        assert!(has_feature(&dependency, "tonic", "router"));
        assert!(!has_feature(&dependency, "tonic", "gzip") && !has_feature(&dependency, "tower", "router"));
    }

    #[test]
    fn randomness_without_the_system_may_be_used() {
        let mut dependency = Dependency {
            name: "rand".into(),
            published: "rand".into(),
            defaults: false,
            features: vec!["std_rng".into()],
        };
        assert!(!draws_from_system(&dependency));
        dependency.features.push("sys_rng".into());
        assert!(draws_from_system(&dependency));
    }

    #[test]
    fn the_violation_points_at_the_manifest_line() {
        let manifest =
            "[package]\nname = \"lease\"\n\n[dependencies]\ntokio-util = \"1\"\ntokio.workspace = true\n";
        let tree = Tree::of(&[("crates/lease/Cargo.toml", manifest)]);
        let shown: Vec<String> = check(&tree, &Graph::of(&[("lease", "crates/lease", &["tokio"])]))
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(shown.len(), 1);
        assert!(
            shown[0].starts_with("crates/lease/Cargo.toml:6: lease -> tokio crosses a wall: "),
            "{shown:?}"
        );
    }

    #[test]
    fn patterns_match_at_either_end() {
        assert!(
            matches(&["*-store"], "lease-store")
                && matches(&["meet-*"], "meet-gc")
                && matches(&["lease"], "lease")
        );
        assert!(!matches(&["lease"], "lease-store") && !matches(&["meet-*"], "meeting"));
    }
}
