//! Writes generated seed inputs into the corpus of each target: `seed fuzz/corpus`.

use std::fs;
use std::path::Path;

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let corpus = std::env::args().nth(1).context("usage: seed FOLDER")?;
    for target in tenure_fuzzing::TARGETS {
        let folder = Path::new(&corpus).join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            fs::write(folder.join(format!("made-{number:02}")), seed)?;
        }
    }
    Ok(())
}
