//! Engines against real disks, real processes and real servers.
#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

mod embedded;
