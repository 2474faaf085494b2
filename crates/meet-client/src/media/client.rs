//! The handle of the media of a participant.

use std::sync::Arc;

use tenure_lease::{Clock, Entropy};
use tenure_meet_wire::media::message::{Publish, Subscribe};
use tenure_meet_wire::signaling::{MediaServerInfo, StreamType};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::controller::MediaController;
use super::inbox::{AudioInbox, VideoInbox};
use super::link::{Command, Link, LinkParts, Sink};
use super::publication::{AudioPublication, PublicationState, VideoFormat, VideoPublication};
use super::subscription::{AudioSubscription, SubscriptionState, VideoRequest, VideoSubscription};
use super::{MediaClosed, MediaState, TrackName, limits};
use crate::dial::Dial;

/// What the media of a participant needs.
#[derive(Clone)]
pub struct MediaOptions {
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Randomness for waits.
    pub entropy: Arc<dyn Entropy>,
    /// The trace context of sessions; may be empty.
    pub traceparent: String,
}

/// The sessions of a participant with media handlers. Dropping it ends them.
pub struct MediaClient {
    options: MediaOptions,
    commands: mpsc::Sender<Command>,
    state: watch::Receiver<MediaState>,
    wake: Arc<Notify>,
    cancel: CancellationToken,
    pub(crate) tasks: JoinSet<()>,
}

impl MediaClient {
    /// Opens sessions with the handlers in `servers` and follows its changes.
    pub fn open(
        dial: Arc<dyn Dial>,
        controller: Arc<dyn MediaController>,
        servers: watch::Receiver<Vec<MediaServerInfo>>,
        options: MediaOptions,
    ) -> Self {
        let (commands, inbox) = mpsc::channel(limits::COMMANDS);
        let (state_sender, state) = watch::channel(MediaState::default());
        let (wake, cancel) = (Arc::new(Notify::new()), CancellationToken::new());
        let parts = LinkParts {
            dial,
            controller,
            servers,
            options: options.clone(),
            commands: inbox,
            state: state_sender,
            wake: wake.clone(),
            cancel: cancel.clone(),
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(Link::new(parts).run());
        Self { options, commands, state, wake, cancel, tasks }
    }

    /// The state of the sessions.
    pub fn state(&self) -> watch::Receiver<MediaState> {
        self.state.clone()
    }

    /// Publishes a video or screen stream. Announce it to the controller as well; the order does not matter.
    pub async fn publish_video(&self, format: VideoFormat) -> Result<VideoPublication, MediaClosed> {
        let publish = format.publish(self.options.clock.wall().as_millis());
        Ok(VideoPublication { state: self.publish(publish).await? })
    }

    /// Publishes an Opus stream.
    pub async fn publish_audio(&self, stream_id: &str) -> Result<AudioPublication, MediaClosed> {
        let mut publish = Publish {
            stream_id: stream_id.to_owned(),
            codec: "opus".to_owned(),
            temporal_layers: 1,
            incarnation: self.options.clock.wall().as_millis(),
            ..Publish::default()
        };
        publish.set_type(StreamType::Audio);
        Ok(AudioPublication::new(self.publish(publish).await?))
    }

    async fn publish(&self, publish: Publish) -> Result<Arc<PublicationState>, MediaClosed> {
        let state = PublicationState::new(publish, self.options.clock.clone(), self.wake.clone());
        self.send(Command::Publish(state.clone())).await?;
        Ok(state)
    }

    /// Subscribes to a video or screen track. One that is not published yet is received when it is.
    pub async fn watch(&self, request: &VideoRequest) -> Result<VideoSubscription, MediaClosed> {
        let state = SubscriptionState::new(request.subscribe(), self.wake.clone());
        let (inbox, frames) = VideoInbox::new();
        self.send(Command::Subscribe(state.clone(), Sink::Video(inbox.clone()))).await?;
        Ok(VideoSubscription { state, inbox, frames, closed: self.cancel.clone() })
    }

    /// Subscribes to the audio of all participants. The handler selects the loudest.
    pub async fn listen(&self) -> Result<AudioSubscription, MediaClosed> {
        self.subscribe_audio(Subscribe { priority: 250, ..Subscribe::default() }).await
    }

    /// Subscribes to an audio track of its own. Priority 255 is forwarded even if others are louder.
    pub async fn listen_to(&self, track: &TrackName, priority: u8) -> Result<AudioSubscription, MediaClosed> {
        let TrackName { participant_id, stream_id } = track.clone();
        let priority = priority.into();
        self.subscribe_audio(Subscribe { participant_id, stream_id, priority, ..Subscribe::default() }).await
    }

    async fn subscribe_audio(&self, mut subscribe: Subscribe) -> Result<AudioSubscription, MediaClosed> {
        subscribe.set_type(StreamType::Audio);
        let state = SubscriptionState::new(subscribe, self.wake.clone());
        let (inbox, packets) = AudioInbox::new();
        self.send(Command::Subscribe(state.clone(), Sink::Audio(inbox.clone()))).await?;
        Ok(AudioSubscription { state, inbox, packets, closed: self.cancel.clone() })
    }

    async fn send(&self, command: Command) -> Result<(), MediaClosed> {
        self.commands.send(command).await.map_err(|_| MediaClosed)
    }

    /// Waits until a handler carries media. `false` if the media client is closed.
    pub async fn active(&self) -> bool {
        let mut state = self.state.clone();
        state.wait_for(|state| state.active.is_some()).await.is_ok()
    }

    /// Closes all sessions and waits until they are.
    pub async fn close(mut self) {
        self.cancel.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

impl Drop for MediaClient {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
