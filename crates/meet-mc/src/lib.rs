//! The meeting controller.
//!
//! [`meeting`] is what a meeting is and what events do to it, as a pure function.

pub mod meeting;
