//! One hand on the device.
//!
//! Whoever holds the control lease drives the device; everybody else watches; a connection that drops frees it at once.
//! The lease belongs to a WebSocket connection and lives in the lease kernel; requests over HTTP prove ownership with its
//! token; hands on the device itself (a serial line, a knob) are held off while anybody holds.
//!
//! Flow: frame or request → [`command`](Command) from the one table → the desk, where lease, device and stream are
//! decided together under one lock → answer, then broadcast. The renderer reads the desk and shows.

mod args;
mod authority;
mod class;
mod code;
mod command;
mod desk;
mod device;
mod gate;
mod guesses;
mod herald;
mod input;
mod lease;
mod options;
mod output;
mod render;
mod rest;
mod routes;
mod socket;
mod stream;
mod telemetry;
mod uptime;
mod vault;
mod wire;

use std::sync::Arc;

use axum::Router;
use lease_keeper::Keeper;

pub use crate::lease::Standing;
pub use args::{Field, Kind};
pub use authority::{GATE, LEASE};
pub use class::{Class, Source, allowed};
pub use code::{Code, Refusal};
pub use command::{COMMANDS, Command, class_of, commands_page};
pub use gate::{Classes, Gate, GateLayer};
pub use options::{Options, Serial};
pub use output::PREVIEW_HEADER;
pub use rest::Origins;
pub use routes::{ROUTES, Route, classes};
pub use stream::{FRAME, PAYLOAD, frame};

use desk::Inner;

/// The service, running. Clones are the same service.
#[derive(Clone)]
pub struct Control {
    inner: Arc<Inner>,
}

impl Control {
    /// Starts the service: it stands by until the device can be had, then serves it. Must be called inside a tokio
    /// runtime.
    pub fn start(options: Options, keeper: Keeper) -> Self {
        let inner = Inner::new(options, keeper);
        let tasks = &inner.tasks;
        tasks.spawn(authority::run(inner.clone()));
        tasks.spawn(render::run(inner.clone()));
        tasks.spawn(herald::watch(inner.clone()));
        tasks.spawn(herald::tell(inner.clone()));
        tasks.spawn(herald::store(inner.clone()));
        input::start(&inner);
        Self { inner }
    }

    /// The routes of the service, behind its own gate. `origins` says which pages of other origins may ask.
    pub fn routes(&self, origins: Origins) -> Router {
        rest::router(self.inner.clone(), origins)
    }

    /// The gate for another API, with its own class table.
    pub fn gate(&self, classes: Classes) -> GateLayer {
        GateLayer::new(self.inner.clone(), classes)
    }

    /// Whether this process serves the device.
    pub fn is_serving(&self) -> bool {
        self.inner.ready().is_ok()
    }

    /// Waits until this process serves the device.
    pub async fn serving(&self) {
        let mut role = self.inner.role.subscribe();
        // The sender lives in the service itself, so waiting cannot fail.
        let _ = role.wait_for(authority::Role::serves).await;
    }

    /// Ends: tells everybody, gives the lease and the device back, stores what is shown.
    pub async fn close(self) {
        self.inner.ends.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("serving", &self.is_serving()).finish_non_exhaustive()
    }
}
