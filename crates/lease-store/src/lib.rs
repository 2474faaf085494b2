//! Where leases live: memory, embedded, Redis; one conformance suite for all.
