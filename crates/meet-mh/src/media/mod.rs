//! The data plane: what members of a meeting publish and subscribe to, and the tasks that move it.

mod audio;
mod bucket;
mod choice;
mod group;
mod incoming;
mod ingest;
mod keyframe;
mod layers;
mod load;
mod meeting;
mod member;
mod meter;
mod mute;
mod publish;
mod pump;
mod rate;
mod relay;
mod requests;
mod selection;
mod session;
mod source;
mod speakers;
mod subscribe;
mod tail;
mod ticker;
mod track;
mod viewing;

pub(crate) use bucket::Bucket;
pub(crate) use load::Load;
pub(crate) use meeting::mute_message;
pub(crate) use meeting::{Meeting, Shared};
pub(crate) use member::Link;
pub use relay::{RelayAcceptor, RelayDialer};
pub(crate) use session::{SessionStart, run as run_session};
pub(crate) use ticker::Counts;
