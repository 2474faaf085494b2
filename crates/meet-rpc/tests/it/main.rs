//! Calls between parts of meetings: over the network and inside the process.

mod gate;
mod house;
mod lines;
mod tokens;
