//! The workspace as `cargo metadata` describes it: packages, dependencies, examples.
use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::workspace::Workspace;

/// A normal dependency as the manifest declares it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dependency {
    /// The folder of a member of the workspace; the name of any other package, whatever the manifest renames it to.
    pub(crate) name: String,
    /// The name under which the package is published.
    pub(crate) published: String,
    /// Whether its default features are on.
    pub(crate) defaults: bool,
    /// The requested features.
    pub(crate) features: Vec<String>,
}

/// A member of the workspace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Package {
    /// Its directory, relative to the root of the workspace.
    pub(crate) dir: String,
    /// Its normal dependencies, optional and platform-specific ones included.
    pub(crate) dependencies: Vec<Dependency>,
    /// The sources of its examples, relative to the root, by target name.
    pub(crate) examples: BTreeMap<String, String>,
}

/// The members of the workspace by the name of their folder, which is shorter than the published name.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Graph {
    /// Every member.
    pub(crate) packages: BTreeMap<String, Package>,
}

impl Graph {
    /// Runs `cargo metadata`.
    pub(crate) fn read(workspace: &Workspace) -> Result<Graph> {
        let mut cargo = workspace.cargo(&["metadata", "--format-version", "1", "--no-deps"]);
        let output = cargo.output().context("cannot start cargo metadata")?;
        if !output.status.success() {
            bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Graph::parse(&serde_json::from_slice(&output.stdout).context("cargo metadata printed invalid JSON")?)
    }

    fn parse(metadata: &Value) -> Result<Graph> {
        let root = Path::new(text(metadata, "workspace_root")?);
        let mut graph = Graph::default();
        let mut folders = BTreeMap::new();
        for package in list(metadata, "packages")? {
            let manifest = Path::new(text(package, "manifest_path")?);
            let dir = relative(root, manifest.parent().context("a manifest without a directory")?)?;
            let mut dependencies = Vec::new();
            for dependency in list(package, "dependencies")?.iter().filter(|d| d["kind"].is_null()) {
                let published = text(dependency, "name")?;
                dependencies.push(Dependency {
                    name: published.to_owned(),
                    published: published.to_owned(),
                    defaults: dependency["uses_default_features"].as_bool().unwrap_or(true),
                    features: list(dependency, "features")?
                        .iter()
                        .filter_map(Value::as_str)
                        .map(Into::into)
                        .collect(),
                });
            }
            let mut examples = BTreeMap::new();
            for target in list(package, "targets")?.iter().filter(|target| is_example(target)) {
                examples.insert(
                    text(target, "name")?.into(),
                    relative(root, Path::new(text(target, "src_path")?))?,
                );
            }
            let folder = dir.rsplit('/').next().unwrap_or(&dir).to_owned();
            folders.insert(text(package, "name")?, folder.clone());
            graph.packages.insert(folder, Package { dir, dependencies, examples });
        }
        for dependency in graph.packages.values_mut().flat_map(|package| &mut package.dependencies) {
            if let Some(folder) = folders.get(dependency.published.as_str()) {
                dependency.name.clone_from(folder);
            }
        }
        Ok(graph)
    }

    /// A graph for tests: name, directory and dependencies of each package.
    #[cfg(test)]
    pub(crate) fn of(packages: &[(&str, &str, &[&str])]) -> Graph {
        let dependency = |name: &&str| Dependency {
            name: (*name).into(),
            published: (*name).into(),
            defaults: true,
            features: Vec::new(),
        };
        let package = |dir: &str, names: &[&str]| Package {
            dir: dir.into(),
            dependencies: names.iter().map(dependency).collect(),
            examples: BTreeMap::new(),
        };
        Graph {
            packages: packages.iter().map(|(name, dir, on)| ((*name).into(), package(dir, on))).collect(),
        }
    }
}

/// Whether a target, in metadata or in a build message, is an example.
pub(crate) fn is_example(target: &Value) -> bool {
    target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "example"))
}

fn text<'a>(value: &'a Value, field: &str) -> Result<&'a str> {
    value[field].as_str().with_context(|| format!("cargo metadata has no text `{field}`"))
}

fn list<'a>(value: &'a Value, field: &str) -> Result<&'a Vec<Value>> {
    value[field].as_array().with_context(|| format!("cargo metadata has no list `{field}`"))
}

fn relative(root: &Path, path: &Path) -> Result<String> {
    let path =
        path.strip_prefix(root).with_context(|| format!("{} is outside the workspace", path.display()))?;
    Ok(path.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_keep_their_normal_dependencies_and_examples() {
        let dependency = |name: &str, kind: Value| json!({"name": name, "kind": kind, "features": ["net"], "uses_default_features": false});
        let graph = Graph::parse(&json!({
            "workspace_root": "/clone",
            "packages": [{
                "name": "tenure-lease",
                "manifest_path": "/clone/crates/lease/Cargo.toml",
                "dependencies": [dependency("tokio", Value::Null), dependency("proptest", json!("dev"))],
                "targets": [
                    {"name": "hello", "kind": ["example"], "src_path": "/clone/examples/hello.rs"},
                    {"name": "lease", "kind": ["lib"], "src_path": "/clone/crates/lease/src/lib.rs"},
                ],
            }],
        }))
        .unwrap();
        let lease = &graph.packages["lease"];
        assert_eq!(lease.dir, "crates/lease");
        let tokio = Dependency {
            name: "tokio".into(),
            published: "tokio".into(),
            defaults: false,
            features: vec!["net".into()],
        };
        assert_eq!(lease.dependencies, [tokio]);
        assert_eq!(lease.examples, [("hello".to_owned(), "examples/hello.rs".to_owned())].into());
    }

    #[test]
    fn members_are_known_by_their_folder() {
        let package = |name: &str, folder: &str, on: &[&str]| {
            let dependencies: Vec<Value> =
                on.iter().map(|on| json!({"name": on, "kind": null, "features": []})).collect();
            let manifest = format!("/clone/crates/{folder}/Cargo.toml");
            json!({"name": name, "manifest_path": manifest, "dependencies": dependencies, "targets": []})
        };
        let packages = [
            package("tenure-keeper", "lease-keeper", &["tenure-lease"]),
            package("tenure-lease", "lease", &[]),
        ];
        let graph = Graph::parse(&json!({"workspace_root": "/clone", "packages": packages})).unwrap();
        let lease = &graph.packages["lease-keeper"].dependencies[0];
        assert_eq!((lease.name.as_str(), lease.published.as_str()), ("lease", "tenure-lease"));
    }

    #[test]
    fn a_changed_format_is_an_error() {
        assert!(Graph::parse(&json!({"workspace_root": "/clone"})).is_err());
    }
}
