//! What makes the picture of a session.

mod args;
mod ffmpeg;
mod verdict;

use async_trait::async_trait;
use lease::Clock;
use session::{Detail, Reason, Session};

use crate::desk::Cause;
use crate::launch::Times;
use crate::pattern::Show;
use crate::world::World;
use crate::{Fatal, Options, Source, folder};

/// What a pipeline has to tell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum News {
    /// The playlist and a first segment are there. Told once.
    Published,
    /// The source ended, as recordings do; what is there can be watched.
    Drained,
    /// It cannot go on.
    Failed(Cause),
}

/// A picture being made.
#[async_trait]
pub(crate) trait Pipeline: Send {
    /// What is new. Dropping the future loses nothing.
    async fn news(&mut self) -> News;

    /// Whether it ends by itself when its time is over, and so must be told of later times.
    fn is_timed(&self) -> bool;

    /// Later times: the leases were prolonged.
    async fn extend(&mut self, times: Times);

    /// Asks it to end.
    async fn stop(&mut self);

    /// Ends it now.
    async fn kill(&mut self);

    /// Whether nothing of it is left.
    fn is_gone(&self) -> bool;
}

/// Refuses a source that cannot work, before anything else happens.
pub(crate) async fn check(options: &Options, clock: &dyn Clock) -> Result<(), Fatal> {
    match &options.source {
        Source::Pattern => Ok(()),
        Source::Ffmpeg(source) => ffmpeg::check(source, clock).await,
    }
}

/// Starts the picture of a session that holds its leases.
pub(crate) async fn start(
    world: &World,
    session: &Session,
    times: Times,
) -> Result<Box<dyn Pipeline>, Cause> {
    let folder = folder::of(&world.options.output_dir, &session.id);
    match &world.options.source {
        Source::Ffmpeg(source) => ffmpeg::start(world, source, session, folder, times).await,
        Source::Pattern => {
            let projector = world.projector.clone();
            let shown = tokio::task::spawn_blocking(move || {
                folder::make(&folder)?;
                projector.show(&folder)
            });
            let shown = shown.await.map_err(std::io::Error::other).and_then(|shown| shown);
            let show = shown.map_err(|error| not_started(&error))?;
            Ok(Box::new(Pattern { show: Some(show), published: false }))
        }
    }
}

fn not_started(error: &std::io::Error) -> Cause {
    let detail = (error.kind() == std::io::ErrorKind::StorageFull).then_some(Detail::DiskLimit);
    Cause::new(Reason::PipelineStartFailed, detail, verdict::words(&error.to_string()))
}

/// The test picture, which is of this process and needs no end of its own.
struct Pattern {
    show: Option<Show>,
    published: bool,
}

#[async_trait]
impl Pipeline for Pattern {
    async fn news(&mut self) -> News {
        match std::mem::replace(&mut self.published, true) {
            false => News::Published,
            true => std::future::pending().await,
        }
    }

    fn is_timed(&self) -> bool {
        false
    }

    async fn extend(&mut self, _times: Times) {}

    async fn stop(&mut self) {
        self.kill().await;
    }

    async fn kill(&mut self) {
        self.show = None;
    }

    fn is_gone(&self) -> bool {
        self.show.is_none()
    }
}
