//! TV sessions of the built binary, on the embedded store and on Redis.

mod cluster;
mod intents;
mod lifecycle;
mod loss;
mod streams;
