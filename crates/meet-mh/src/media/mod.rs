//! The data plane: what members of a meeting publish and subscribe to, and the tasks that move it.

mod audio;
mod bucket;
mod choice;
mod group;
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
mod requests;
mod selection;
mod session;
mod speakers;
mod subscribe;
mod tail;
mod ticker;
mod track;

pub(crate) use bucket::Bucket;
pub(crate) use load::Load;
pub(crate) use meeting::mute_message;
pub(crate) use meeting::{Meeting, Shared};
pub(crate) use member::Link;
pub(crate) use session::{SessionStart, run as run_session};
pub(crate) use ticker::Counts;
