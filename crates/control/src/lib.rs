//! Exclusive control of a device.
//!
//! The client that holds the control lease controls the device, and all other clients observe. The lease belongs to a
//! WebSocket connection and is released as soon as the connection drops. It is stored in the lease kernel. HTTP requests
//! prove ownership with the lease token. Local inputs (serial ports and rotary encoders) are blocked while a client holds
//! the lease.
//!
//! Flow: frame or request → [`command`](Command) from the command table → `ControlState`, which holds lease, device and
//! stream under one lock → reply, then broadcast. The renderer reads the same state.

mod args;
mod authority;
mod background;
mod class;
mod code;
mod command;
mod device;
mod device_store;
mod gate;
mod input;
mod lease;
mod options;
mod output;
mod rate_limit;
mod render;
mod rest;
mod routes;
mod service;
mod socket;
mod stream;
mod telemetry;
mod uptime;
mod wire;

use std::sync::Arc;

use axum::Router;
use tenure_keeper::Keeper;

pub use crate::lease::Ownership;
pub use args::{Field, Kind};
pub use authority::{GATE, LEASE};
pub use class::{Class, InputSource, allowed};
pub use code::{Code, Refusal};
pub use command::{COMMANDS, Command, class_of, command_schemas, commands_page};
pub use gate::{Gate, GateLayer, RouteClasses};
pub use options::{Options, SerialPort};
pub use output::PREVIEW_HEADER;
pub use rest::Origins;
pub use routes::{ROUTES, Route, classes};
pub use stream::{FRAME, PAYLOAD, frame};

use service::ControlService;

/// The running service. Clones share it.
#[derive(Clone)]
pub struct Control {
    service: Arc<ControlService>,
}

impl Control {
    /// Starts the service. It stands by until it acquires the device, then serves it. Must be called inside a tokio
    /// runtime.
    pub fn start(options: Options, keeper: Keeper) -> Self {
        let service = ControlService::new(options, keeper);
        let tasks = &service.tasks;
        tasks.spawn(authority::run(service.clone()));
        tasks.spawn(render::run(service.clone()));
        tasks.spawn(background::expire_due(service.clone()));
        tasks.spawn(background::publish_changes(service.clone()));
        tasks.spawn(background::store_changes(service.clone()));
        input::start(&service);
        Self { service }
    }

    /// The routes of the service, behind its gate. `origins` decides which other origins may send requests.
    pub fn routes(&self, origins: Origins) -> Router {
        rest::router(self.service.clone(), origins)
    }

    /// A gate for another API, with that API's own class table.
    pub fn gate(&self, classes: RouteClasses) -> GateLayer {
        GateLayer::new(self.service.clone(), classes)
    }

    /// Whether this process serves the device.
    pub fn is_serving(&self) -> bool {
        self.service.check_serving().is_ok()
    }

    /// Waits until this process serves the device.
    pub async fn serving(&self) {
        let mut role = self.service.role.subscribe();
        // The sender lives in the service itself, so waiting cannot fail.
        let _ = role.wait_for(authority::Role::serves).await;
    }

    /// Shuts down: notifies all clients, releases the lease and the device, and stores the device state.
    pub async fn close(self) {
        self.service.shutdown.cancel();
        self.service.tasks.close();
        self.service.tasks.wait().await;
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("serving", &self.is_serving()).finish_non_exhaustive()
    }
}
