//! Meetings in a simulated cluster: the real global controller, meeting controllers, media handler and clients.
//!
//! Every process is a host of `crate::simulation`, with a runtime and a clock of its own, over one store in memory.
//! `plan` is what a seed decides; `running` carries it out; `judge` reads every accepted write of the store and
//! every frame between clients and controllers.
//!
//! - `world` is the network between hosts, `session` the WebTransport sessions over it, `call` gRPC and REST.
//! - `nodes` starts the roles as they are deployed, `person` a client that does what the plan says.

mod breaks;
mod call;
mod fault;
mod judge;
mod nodes;
mod person;
mod plan;
mod running;
mod session;
mod settled;
mod store;
mod tokens;
mod world;

pub use breaks::{BREAKS, hunt};
pub use judge::{Sentence, Violation};
pub use plan::{Act, Fault, Kind, Person, Plan};

use running::Running;

/// What came of a run.
pub struct Run {
    /// What was wrong.
    pub violations: Vec<Violation>,
    /// A hash of everything that happened, in order.
    pub fingerprint: u64,
    /// How many things happened.
    pub events: u64,
    /// What happened, where it was asked for.
    pub lines: Vec<String>,
}

/// Runs a plan.
pub fn run(plan: &Plan) -> Run {
    Running::new(plan, false).finish()
}

/// Runs a plan and keeps what happens, to show it.
pub fn run_with_lines(plan: &Plan) -> Run {
    Running::new(plan, true).finish()
}
