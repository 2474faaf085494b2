//! Time from a release to the grant of a queued claim, over the network.

use std::time::Duration;

use anyhow::Result;
use tenure_store::Store;
use tenure_testkit::RedisServer;

use super::Bench;
use super::redis_handover::{Rounds, Way, round};
use crate::machine::Others;
use crate::numbers::median;
use crate::peers::recipe::Hand;
use crate::peers::tenure::Up;
use crate::report::{self, Goal};

/// Numbers of queued claims.
const QUEUED: [usize; 3] = [1, 50, 500];
/// The greatest ratio between the longest and the shortest queue that counts as constant.
const FLAT: f64 = 1.5;

pub(crate) fn run(bench: &Bench<'_>) -> Result<()> {
    report::heading("network-handover: from the release to the grant of a queued claim");
    let others = Others::watch();
    let (disk, memory) = (bench.folder("tenure")?, bench.folder("memory")?);
    let durable = Up::start(disk.path(), None)?;
    let fleeting = Up::start(memory.path(), Some("memory:"))?;
    let server = RedisServer::start()?;
    let url = server.url();
    let (lasting, passing, hand) = bench.runtime.block_on(async {
        anyhow::Ok((durable.client().await?, fleeting.client().await?, Hand::connect(&url, 1).await?))
    })?;
    let time = Duration::from_secs(bench.seconds);
    let (mut rows, mut goals, mut middles) = (Vec::new(), Vec::new(), Vec::new());
    for queued in QUEUED {
        let way = |store: &Store| Way::Tenure(store.clone());
        let ways = [way(&lasting), way(&passing), Way::Hand(hand.clone(), url.clone()), way(&passing)];
        let mut found: [Rounds; 4] = Default::default();
        for number in 0..bench.rounds {
            for step in 0..ways.len() {
                let turn = (step + number) % ways.len();
                found[turn].add(bench.runtime.block_on(round(&ways[turn], &hand, queued, time))?);
            }
        }
        let names = [
            "Tenure, durable",
            "Tenure, in memory",
            "Redis, PUBLISH in the release",
            "Tenure, in memory, again",
        ];
        rows.extend(
            names.iter().zip(&found).map(|(name, rounds)| rounds.row(format!("{name}, {queued} queued"))),
        );
        let middle = found.each_ref().map(|rounds| median(rounds.medians(|round| round.lags.at(50.0))));
        let what = |engine| format!("p50, {engine} ÷ Redis, {queued} queued");
        goals.push(Goal::at_most(what("in memory"), 1.0, middle[1] / middle[2]));
        goals.push(Goal::at_most(format!("stricter: {}", what("durable")), 1.0, middle[0] / middle[2]));
        middles.push(middle);
    }
    report::table(&Rounds::HEAD, &rows);
    for (side, name) in ["durable", "in memory"].into_iter().enumerate() {
        let grown = middles[QUEUED.len() - 1][side] / middles[0][side];
        goals.push(Goal::at_most(format!("p50, {name}, 500 queued ÷ 1 queued"), FLAT, grown));
    }
    report::goals(&goals);
    let pids = [durable.pid(), fleeting.pid(), server.pid()];
    report::line(&format!("Other work used {:.0} % of the cores.", others.share(&pids)));
    Ok(())
}
