//! The polling node of this process.

use async_trait::async_trait;
use axum::Router;
use tenure_poller::Node;
use tenure_service::Settings;
use utoipa::openapi::OpenApi;

use crate::cli::{Failure, Result};
use crate::services::{Definition, Given, Prepared, Process, Roles, Service};

pub(crate) const SERVICE: Definition =
    Definition { name: "poll", settings: tenure_poller::SPECS, always: false, set_defaults, prepare };

/// How the node runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Role {
    /// Beside other services.
    #[default]
    Shared,
    /// By itself, as one of any number on a machine.
    Node,
}

/// Nodes that run by themselves take any free port: several of them fit on one machine.
fn set_defaults(settings: &mut Settings, roles: &Roles, given: Given) {
    if roles.poll == Role::Node && !given.listen {
        settings.listen.set_port(0);
    }
}

fn prepare(settings: &Settings, _: &Roles) -> Result<Box<dyn Prepared>> {
    let settings = tenure_poller::Settings::parse(settings.sections.get("poll"))
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(Box::new(PreparedNode(settings)))
}

struct PreparedNode(tenure_poller::Settings);

#[async_trait]
impl Prepared for PreparedNode {
    async fn start(self: Box<Self>, process: &Process) -> Result<Box<dyn Service>> {
        Ok(Box::new(PollService(Node::start(process.store.clone(), self.0)?)))
    }
}

struct PollService(Node);

#[async_trait]
impl Service for PollService {
    fn page(&self) -> Option<&'static str> {
        Some(SERVICE.name)
    }

    fn routes(&self) -> Router {
        tenure_poller::routes(&self.0).0
    }

    fn description(&self) -> Option<OpenApi> {
        Some(tenure_poller::routes(&self.0).1)
    }

    fn greeting(&self) -> Vec<(&'static str, String)> {
        vec![("poll node", self.0.instance().to_owned())]
    }

    /// Hands its targets to other nodes.
    async fn stop(self: Box<Self>) {
        self.0.stop().await;
    }
}
