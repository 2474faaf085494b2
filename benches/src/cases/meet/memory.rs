//! Memory of an idle participant above a bare session.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::bare::Bare;
use super::server::{BenchServer, dialer, enter};
use crate::cases::Bench;
use crate::clock::nap;
use crate::machine::resident_of;
use crate::report::{self, Goal};

const PEOPLE: usize = 1_000;
const SEATS: usize = 10;

pub(super) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading(&format!("meet-memory: {PEOPLE} idle participants in meetings of {SEATS}"));
    let bare = Bare::start()?;
    let site = BenchServer::start(bench)?;
    // Meetings are there before, and a first hundred of each has paid for what is set aside once.
    let meetings = bench.runtime.block_on(site.meetings(PEOPLE / SEATS + 10))?;
    let dialer = {
        let _inside = bench.runtime.enter();
        Arc::new(dialer()?)
    };
    let people = |from: usize, to: usize| {
        let (site, meetings, dialer) = (&site, &meetings, &dialer);
        async move {
            let mut people = Vec::new();
            for n in from..to {
                people.push(enter(site.seat(&meetings[n / SEATS], n)?, dialer.clone(), 0).await?);
            }
            anyhow::Ok(people)
        }
    };
    let _first = (bench.runtime.block_on(bare.sessions(100))?, bench.runtime.block_on(people(0, 100))?);
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / PEOPLE as f64;
    let before = quiet(bare.pid())?;
    let _sessions = bench.runtime.block_on(bare.sessions(PEOPLE))?;
    let session = each(before, quiet(bare.pid())?);
    let before = quiet(site.pid())?;
    let _people = bench.runtime.block_on(people(100, 100 + PEOPLE))?;
    let person = each(before, quiet(site.pid())?);
    let row = |name: &str, bytes: f64| vec![name.to_owned(), format!("{:.1} KiB", bytes / 1_024.0)];
    report::table(&["", "resident, each"], &[row("a bare session", session), row("a participant", person)]);
    let above = (person - session) / 1_024.0;
    report::goals(&[Goal::at_most("KiB of an idle participant above a bare session", 10.0, above)]);
    Ok(())
}

/// Resident bytes a while after the last thing that was done.
fn quiet(pid: u32) -> Result<u64> {
    nap(Duration::from_secs(2));
    resident_of(pid)
}
