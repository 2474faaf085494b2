//! The console in a real browser, against the built binary.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test like the tests themselves")]

mod bot;
mod console;
mod control;
mod countdown;
mod keyboard;
mod live;
mod login;
mod media;
mod meet;
mod mute;
mod operations;
mod person;
mod polling;
mod reconnect;
mod revoke;
mod screenshots;
mod shell;
mod stage;
mod theme;
mod tv;
mod up;

use std::time::Duration;

/// How long anything that must happen may take on a loaded machine; never how long a test takes.
const LIMIT: Duration = Duration::from_secs(30);
