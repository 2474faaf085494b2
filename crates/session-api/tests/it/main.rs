//! The door, from outside.
