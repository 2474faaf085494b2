//! The control service in this process.

use std::sync::Arc;

use axum::Router;
use control::{Control, Options};
use lease::{Holder, Store};
use lease_keeper::{Keeper, OsEntropy};
use service::{Auth, Settings, Shutdown, auth_layer};

use crate::cli::{Failure, Result};
use crate::up::runs;

/// Starts the service, if it is to run here.
pub(crate) fn start(settings: &Settings, store: Arc<dyn Store>) -> Result<Option<Control>> {
    if !runs(settings, "control") {
        return Ok(None);
    }
    let options = Options::read(settings.sections.get("control")).map_err(Failure::usage)?;
    let holder =
        Holder::unique("control", &OsEntropy).map_err(|error| Failure::internal(error.to_string()))?;
    Ok(Some(Control::start(options, Keeper::new(store, holder))))
}

/// Its routes, behind the authentication that all share.
pub(crate) fn routes(control: &Control, auth: Arc<Auth>) -> Router {
    let origins = auth.clone();
    control.routes(Arc::new(move |origin| origins.allows_origin(origin))).layer(auth_layer(auth))
}

/// Ends the service when the process is told to.
pub(crate) async fn close(control: Option<Control>, shutdown: Shutdown) {
    shutdown.wait().await;
    if let Some(control) = control {
        control.close().await;
    }
}
