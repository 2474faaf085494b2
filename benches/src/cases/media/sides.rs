//! The two servers, and one turn of either.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use tenure_meet_wire::transport::Session;
use tenure_meet_wire::transport::quic::Dialer;
use tenure_testkit::Process;

use super::handler::TIMING;
use super::peer::Record;
use crate::cases::meet::server::{LOAD, SERVER, pin};
use crate::clock::pause;
use crate::machine::{TICKS, of_process, resident_of};
use crate::numbers::{Lags, Spread, plain, short};
use crate::report::{self, Goal};

const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const START: Duration = Duration::from_secs(30);
/// What is on its way at the end of a turn arrives within this time.
const SETTLE: Duration = Duration::from_millis(300);

/// A server in a process of its own.
pub(super) struct Side {
    pub(super) name: &'static str,
    pub(super) process: Process,
    url: String,
    hash: Vec<u8>,
    dialer: Dialer,
}

impl Side {
    /// A media handler.
    pub(super) fn handler() -> Result<Self> {
        Self::start("tenure", "media-handler")
    }

    /// The program that only copies.
    pub(super) fn bare() -> Result<Self> {
        Self::start("bare forwarder", "media-bare")
    }

    fn start(name: &'static str, case: &str) -> Result<Self> {
        pin(std::process::id(), LOAD)?;
        let mut command = Command::new("taskset");
        command.args(["-c", SERVER]).arg(std::env::current_exe()?).arg(case);
        let process = Process::spawn(command)?;
        let line = process.wait_for_line(|line| line.starts_with("ready "), START)?;
        let mut words = line.split(' ').skip(1);
        let (url, hash) = (words.next().context("no URL")?, words.next().context("no hash")?);
        let hash = (0..hash.len() / 2)
            .map(|n| u8::from_str_radix(&hash[n * 2..n * 2 + 2], 16))
            .collect::<Result<_, _>>()?;
        Ok(Self { name, process, url: url.to_owned(), hash, dialer: Dialer::new(ANY, TIMING)? })
    }

    pub(super) fn is_handler(&self) -> bool {
        self.name == "tenure"
    }

    pub(super) async fn dial(&self) -> Result<Arc<dyn Session>> {
        Ok(self.dialer.dial(&self.url, std::slice::from_ref(&self.hash), None).await?)
    }

    /// CPU time used so far.
    fn cpu(&self) -> Result<Duration> {
        let ticks = of_process(self.process.pid()).context("the server is gone")?;
        Ok(Duration::from_secs_f64(ticks as f64 / TICKS))
    }

    pub(super) fn resident(&self) -> Result<u64> {
        resident_of(self.process.pid())
    }
}

/// What one turn found.
pub(super) struct Turn {
    pub(super) cpu: Duration,
    pub(super) frames: Lags,
    pub(super) packets: Lags,
}

impl Turn {
    /// Microseconds of CPU per delivered frame or packet.
    pub(super) fn cost(&self) -> f64 {
        let delivered = self.frames.count() + self.packets.count();
        self.cpu.as_secs_f64() * 1e6 / delivered.max(1) as f64
    }
}

/// Runs the load against a server and measures it.
pub(super) async fn turn(
    side: &Side,
    record: &Record,
    load: impl Future<Output = Result<()>>,
) -> Result<Turn> {
    drop(record.take());
    let before = side.cpu()?;
    load.await?;
    pause(SETTLE).await;
    let cpu = side.cpu()? - before;
    let (frames, packets) = record.take();
    Ok(Turn { cpu, frames: Lags::new(frames), packets: Lags::new(packets) })
}

/// Turns of the handler, of the forwarder, and of the handler again as the control.
#[derive(Default)]
pub(super) struct Contest {
    pub(super) ours: Vec<Turn>,
    pub(super) bare: Vec<Turn>,
    pub(super) again: Vec<Turn>,
}

impl Contest {
    fn costs(turns: &[Turn]) -> Spread {
        Spread::of(&turns.iter().map(Turn::cost).collect::<Vec<_>>())
    }

    fn ratio(over: &[Turn], under: &[Turn]) -> Spread {
        let ratios: Vec<f64> = over.iter().zip(under).map(|(a, b)| a.cost() / b.cost()).collect();
        Spread::of(&ratios)
    }

    /// The handler's CPU per delivery over that of the forwarder.
    pub(super) fn ratio_to_bare(&self) -> Spread {
        Self::ratio(&self.ours, &self.bare)
    }

    /// The worst percentile of any turn.
    pub(super) fn worst(turns: &[Turn], percent: f64, of: impl Fn(&Turn) -> &Lags) -> Duration {
        turns.iter().map(|turn| of(turn).at(percent)).max().unwrap_or_default()
    }

    /// Prints the table and the control.
    pub(super) fn print(&self, of: impl Fn(&Turn) -> &Lags + Copy) {
        let row = |name: &str, turns: &[Turn], ratio: String| {
            let count: usize = turns.iter().map(|turn| turn.frames.count() + turn.packets.count()).sum();
            vec![
                name.to_owned(),
                count.to_string(),
                Self::costs(turns).to_string(),
                short(Self::worst(turns, 50.0, of)),
                short(Self::worst(turns, 99.0, of)),
                ratio,
            ]
        };
        let control = Self::ratio(&self.ours, &self.again);
        report::table(
            &["side", "deliveries", "µs CPU per delivery", "p50", "p99", "tenure ÷ this"],
            &[
                row("tenure", &self.ours, "–".to_owned()),
                row("bare forwarder", &self.bare, self.ratio_to_bare().to_string()),
                row("control: tenure again", &self.again, control.to_string()),
            ],
        );
        if (control.median - 1.0).abs() > 0.05 {
            report::line("The control deviates by more than 5 %: repeat on an idle machine.\n");
        }
    }

    /// The goal against the forwarder.
    pub(super) fn goal(&self, what: &str) -> Goal {
        Goal::at_most(format!("{what}: CPU per delivery ÷ bare forwarder"), 1.5, self.ratio_to_bare().median)
    }

    /// Deliveries per second of server CPU.
    pub(super) fn per_core(turns: &[Turn]) -> String {
        plain(1e6 / Self::costs(turns).median)
    }
}
