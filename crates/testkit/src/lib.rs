//! Real servers for tests, and a proxy that cuts, delays and drops.
