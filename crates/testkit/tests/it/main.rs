//! The kit against the real servers it is made for.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test like the tests themselves")]

mod chromium;
mod datagrams;
mod etcd;
mod process;
mod proxy;
mod proxy_traps;
mod redis;

use std::time::Duration;

/// How long anything that must happen may take on a loaded machine; never how long a test takes.
const LIMIT: Duration = Duration::from_secs(30);

/// How long something that must not happen is given to happen.
const MOMENT: Duration = Duration::from_millis(100);
