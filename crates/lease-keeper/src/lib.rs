//! Holding leases in a process: keeper, guard, gate, bundle, slots, roster, handoff.
