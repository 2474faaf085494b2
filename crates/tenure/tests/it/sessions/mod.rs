//! Sessions of the built binary, as clients see them, on the embedded store and on a real Redis.

mod house;
mod intents;
mod life;
mod loss;
mod pictures;
