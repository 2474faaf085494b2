//! Words of the wire into words of meetings and back: here and nowhere else.

mod answer;
mod ask;
mod event;

pub use answer::{handlers, refused, told, welcomed};
pub use ask::{Knock, knock, request};
pub use event::{happened, happening, participant};
