//! The orchestrator from outside.
