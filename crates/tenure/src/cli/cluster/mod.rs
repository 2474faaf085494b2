//! `tenure cluster`: a whole cluster of meetings on this machine, as child processes.

mod greeting;
mod member;
mod plan;
mod supervisor;

use std::net::SocketAddr;
use std::path::PathBuf;

use super::{Failure, Result, Screen, exit, target::StoreLocation};
use crate::meet::{self, Role};
use member::Member;
use plan::{Endpoints, Layout};
use supervisor::Supervisor;

/// The arguments of `tenure cluster`.
#[derive(clap::Args, Debug)]
#[command(after_help = AFTER)]
pub(crate) struct Args {
    /// Address of the global controller: console, REST API and sign-in
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:7400")]
    listen: SocketAddr,
    /// Number of meeting controllers
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=16))]
    mc: u16,
    /// Number of media handlers
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=16))]
    mh: u16,
    /// Store that all processes share, such as redis://127.0.0.1:6379 [default: an embedded store, served by a process of
    /// the cluster]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// API token for a store that is a Tenure server (tenure://HOST:PORT)
    #[arg(
        long,
        value_name = "TOKEN",
        env = "TENURE_TOKEN",
        hide_env_values = true,
        allow_hyphen_values = true
    )]
    store_token: Option<String>,
    /// Data directory, with a directory for each process
    #[arg(long, value_name = "DIR", default_value = "tenure-cluster")]
    data_dir: PathBuf,
    /// Use consecutive ports from this one on, instead of free ones
    #[arg(long, value_name = "FIRST")]
    ports: Option<u16>,
    /// Start a process again when it ends by itself or is killed
    #[arg(long)]
    restart: bool,
}

const AFTER: &str = "Each process has its name in front of its log lines: store, gc, mc-1, mc-2, …, mh-1, …. Kill one of
them to see its meetings survive: the process ids are printed at the start.

Ctrl-C ends the controllers first, which hand over or close their meetings, then the handlers, the global controller
and the store. A second Ctrl-C ends all of them at once.

Other commands find the cluster by its data directory:
  tenure meet nodes --data-dir tenure-cluster/gc";

/// Runs until a signal, or until no process is left.
pub(crate) async fn run(args: Args, screen: &Screen) -> Result<u8> {
    let layout = Layout::new(&args.data_dir, args.ports, args.mc, args.mh);
    let mut supervisor = Supervisor::listen(*screen, args.restart)?;
    let started = start(&args, &layout, &mut supervisor).await;
    match started {
        Ok(()) => {
            supervisor.supervise().await;
            Ok(exit::DONE)
        }
        Err(failure) => {
            supervisor.shut_down().await;
            Err(failure)
        }
    }
}

/// Starts the processes in the order in which they need each other.
async fn start(args: &Args, layout: &Layout, supervisor: &mut Supervisor) -> Result<()> {
    let (store, token) = match &args.store {
        Some(url) => (url.clone(), args.store_token.clone()),
        None => {
            let started = supervisor.start(layout.store()).await?;
            let token = tenure_service::Auth::local_token(&layout.data_dir("store"))
                .map_err(|error| Failure::unavailable(error.to_string()))?;
            (format!("tenure://{}", super::remote::host(&started.address)), token)
        }
    };
    let gc = supervisor.start(layout.gc(args.listen, &store, token.as_deref())).await?;
    let grpc =
        gc.grpc.clone().ok_or_else(|| Failure::internal("the global controller has no gRPC listener"))?;
    let endpoints = Endpoints { store: store.clone(), token, authority: gc.address.clone(), gc_grpc: grpc };
    let of_gc = layout.data_dir("gc");
    let (for_mc, for_mh) = (meet::export(&of_gc, Role::Mc)?, meet::export(&of_gc, Role::Mh)?);
    let nodes = layout.nodes(&endpoints, &for_mc, &for_mh);
    supervisor.start_all(nodes).await?;
    print(args, &store, &gc, supervisor)
}

fn print(args: &Args, store: &str, gc: &greeting::Greeting, supervisor: &Supervisor) -> Result<()> {
    let screen = supervisor.screen();
    screen.line(format!(
        "A cluster of Tenure {} is running: 1 global controller, {} meeting controllers, {} media handlers",
        env!("CARGO_PKG_VERSION"),
        args.mc,
        args.mh
    ))?;
    let console = gc.console.as_deref().unwrap_or_default();
    let facts = [
        ("console", console.to_owned()),
        ("", "(one-time sign-in link, valid for ten minutes)".to_owned()),
        ("meetings", format!("{}/meet", gc.address)),
        ("store", StoreLocation::new(store).display_url()),
        ("data", args.data_dir.display().to_string()),
    ];
    let members = supervisor.members().map(|member: &Member| (member.name(), member.describe()));
    for (label, value) in facts.into_iter().chain(members) {
        screen.line(format!("  {label:<9} {value}"))?;
    }
    screen.line("Press Ctrl-C to stop.")
}
