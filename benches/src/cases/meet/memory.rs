//! Memory of an idle participant, compared with a bare WebTransport session.

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
    let server = BenchServer::start(bench)?;
    // Meetings and the first hundred clients of each exist before the measurement, so that one-time allocations are excluded.
    let meetings = bench.runtime.block_on(server.meetings(PEOPLE / SEATS + 10))?;
    let dialer = {
        let _inside = bench.runtime.enter();
        Arc::new(dialer()?)
    };
    let people = |from: usize, to: usize| {
        let (server, meetings, dialer) = (&server, &meetings, &dialer);
        async move {
            let mut people = Vec::new();
            for n in from..to {
                people.push(enter(server.seat(&meetings[n / SEATS], n)?, dialer.clone(), 0).await?);
            }
            anyhow::Ok(people)
        }
    };
    let _first = (bench.runtime.block_on(bare.sessions(100))?, bench.runtime.block_on(people(0, 100))?);
    let each = |before: u64, after: u64| after.saturating_sub(before) as f64 / PEOPLE as f64;
    let before = quiet(bare.pid())?;
    let _sessions = bench.runtime.block_on(bare.sessions(PEOPLE))?;
    let session = each(before, quiet(bare.pid())?);
    let before = quiet(server.pid())?;
    let _people = bench.runtime.block_on(people(100, 100 + PEOPLE))?;
    let person = each(before, quiet(server.pid())?);
    let row = |name: &str, bytes: f64| vec![name.to_owned(), format!("{:.1} KiB", bytes / 1_024.0)];
    report::table(
        &["", "resident per client"],
        &[row("a bare session", session), row("a participant", person)],
    );
    let above = (person - session) / 1_024.0;
    report::goals(&[Goal::at_most("idle participant minus bare session, KiB", 10.0, above)]);
    Ok(())
}

/// Resident bytes after a pause.
fn quiet(pid: u32) -> Result<u64> {
    nap(Duration::from_secs(2));
    resident_of(pid)
}
