//! A media handler.
