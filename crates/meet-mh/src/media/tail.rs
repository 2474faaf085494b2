//! Streams of groups that were sent to their end, until the subscriber has acknowledged them. QUIC may still hold a part
//! of them, which a mute takes back.

use std::collections::VecDeque;

use tenure_meet_wire::media::StreamCode;
use tenure_meet_wire::transport::SendStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::group::Reading;
use crate::limits;

/// The unacknowledged streams of one subscription.
pub(crate) struct Tails {
    subscription: CancellationToken,
    tasks: JoinSet<()>,
    /// Abandon the streams, the oldest first.
    abandon: VecDeque<CancellationToken>,
}

impl Tails {
    /// No stream yet, of a subscription that ends with this token.
    pub(crate) fn new(subscription: CancellationToken) -> Self {
        Self { subscription, tasks: JoinSet::new(), abandon: VecDeque::new() }
    }

    /// Adds a finished stream. A subscriber that acknowledges nothing loses the oldest one.
    pub(crate) fn add(&mut self, stream: Box<dyn SendStream>, mut group: Reading) {
        group.stop_reading();
        while self.tasks.try_join_next().is_some() {}
        self.abandon.retain(|abandon| !abandon.is_cancelled());
        if self.abandon.len() >= limits::UNACKNOWLEDGED
            && let Some(oldest) = self.abandon.pop_front()
        {
            oldest.cancel();
        }
        let abandon = CancellationToken::new();
        self.abandon.push_back(abandon.clone());
        self.tasks.spawn(follow(stream, group, self.subscription.clone(), abandon));
    }

    /// Abandons what is left.
    pub(crate) async fn end(mut self) {
        self.subscription.cancel();
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn follow(
    mut stream: Box<dyn SendStream>,
    group: Reading,
    subscription: CancellationToken,
    abandon: CancellationToken,
) {
    let mut erased = group.progress();
    let code = tokio::select! {
        biased;
        _ = erased.wait_for(|erased| *erased) => group.reset_code().filter(|code| *code == StreamCode::Muted),
        () = subscription.cancelled() => Some(StreamCode::NotSubscribed),
        () = abandon.cancelled() => Some(StreamCode::Stale),
        () = stream.acknowledged() => None,
    };
    if let Some(code) = code {
        stream.reset(code.number());
    }
    // Whatever ended this stream, it counts no more.
    abandon.cancel();
}
