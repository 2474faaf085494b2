//! The control service in this process.

use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use tenure_control::{Control, Options};
use tenure_keeper::{Keeper, OsEntropy};
use tenure_lease::Holder;
use tenure_service::{Auth, Settings};

use crate::cli::{Failure, Result};
use crate::services::{Definition, Prepared, Process, Roles, Service, no_defaults};

pub(crate) const SERVICE: Definition = Definition {
    name: "control",
    settings: Options::SPECS,
    always: false,
    set_defaults: no_defaults,
    prepare,
};

fn prepare(settings: &Settings, _: &Roles) -> Result<Box<dyn Prepared>> {
    let options = Options::parse(settings.sections.get("control")).map_err(Failure::usage)?;
    Ok(Box::new(PreparedControl(options)))
}

struct PreparedControl(Options);

#[async_trait]
impl Prepared for PreparedControl {
    async fn start(self: Box<Self>, process: &Process) -> Result<Box<dyn Service>> {
        let holder =
            Holder::unique("control", &OsEntropy).map_err(|error| Failure::internal(error.to_string()))?;
        let control = Control::start(self.0, Keeper::new(process.store.clone(), holder));
        Ok(Box::new(ControlService { control, auth: process.auth.clone() }))
    }
}

struct ControlService {
    control: Control,
    auth: Arc<Auth>,
}

#[async_trait]
impl Service for ControlService {
    fn page(&self) -> Option<&'static str> {
        Some(SERVICE.name)
    }

    fn routes(&self) -> Router {
        let auth = self.auth.clone();
        self.control.routes(Arc::new(move |origin| auth.allows_origin(origin)))
    }

    async fn stop(self: Box<Self>) {
        self.control.close().await;
    }
}
