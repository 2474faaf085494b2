//! One idea per file.
