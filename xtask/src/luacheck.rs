//! `luacheck` over the Redis scripts, as they are sent to the server: libraries, names of arguments, script.
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::step;
use crate::workspace::Workspace;

#[path = "../../crates/lease-store/src/redis/protocol/header.rs"]
#[expect(dead_code, unreachable_pub, reason = "only the assembly of scripts is needed here")]
mod header;

const SCRIPTS: &str = "crates/lease-store/src/scripts";
/// The libraries, in the order in which they are placed before a script.
const LIBS: [&str; 2] = ["store", "lease"];

/// The summary of this step.
pub(crate) fn headline() -> String {
    format!("luacheck over every script in {SCRIPTS} as assembled")
}

/// Fails on any warning.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let mut luacheck = workspace.command("luacheck");
    luacheck
        .args(["--quiet", "--no-color", "--config"])
        .arg(workspace.root().join(SCRIPTS).join(".luacheckrc"));
    luacheck.args(assemble(workspace)?);
    step::command(&mut luacheck)
}

/// Writes the assembled scripts below the target directory.
fn assemble(workspace: &Workspace) -> Result<Vec<PathBuf>> {
    let source = workspace.root().join(SCRIPTS);
    let target = workspace.target().join("luacheck");
    std::fs::create_dir_all(&target)?;
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let texts = LIBS.map(|name| read(source.join("lib").join(name).with_extension("lua")));
    let [store, lease] = texts;
    let (store, lease) = (store?, lease?);
    let libs = [(LIBS[0], store.as_str()), (LIBS[1], lease.as_str())];
    let mut assembled = Vec::new();
    for entry in std::fs::read_dir(&source)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "lua") {
            let body = read(path.clone())?;
            let text = header::assemble(&header::Signature::parse(&body), &libs, &body);
            let file = target.join(path.file_name().unwrap_or_default());
            std::fs::write(&file, text)?;
            assembled.push(file);
        }
    }
    Ok(assembled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_is_assembled_with_its_libraries() {
        let workspace = Workspace::find().unwrap();
        let files = assemble(&workspace).unwrap();
        let acquire = files.iter().find(|file| file.ends_with("acquire.lua")).unwrap();
        let text = std::fs::read_to_string(acquire).unwrap();
        for part in ["local function open_store", "local function settle", "local function item(i)"] {
            assert!(text.contains(part), "{part}");
        }
    }
}
