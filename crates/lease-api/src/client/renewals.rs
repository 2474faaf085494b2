//! The one stream that all renewals of a client travel on.

use std::collections::HashMap;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::bearer::Bearer;
use super::fault::Fault;
use crate::MESSAGE;
use crate::stream::Queue;
use crate::wire::keep_alive_response::Outcome;
use crate::wire::leases_client::LeasesClient;
use crate::wire::{KeepAliveRequest, KeepAliveResponse, RenewResponse, Renewal};

/// Batches waiting for the stream.
const WAITING: usize = 256;
/// Batches handed to the connection and not yet written.
const WRITING: usize = 64;
/// Batches on their way to the server and back.
const UNDER_WAY: usize = 1_024;

/// The way to the stream. The stream is opened by the first batch, and again after it broke.
pub(super) struct Renewals {
    queue: mpsc::Sender<Batch>,
    _task: JoinSet<()>,
}

struct Batch {
    items: Vec<Renewal>,
    told: Told,
}

type Told = oneshot::Sender<Result<RenewResponse, Fault>>;

impl Renewals {
    pub(super) fn start(leases: LeasesClient<Channel>, bearer: Bearer) -> Self {
        let (queue, batches) = mpsc::channel(WAITING);
        let mut task = JoinSet::new();
        task.spawn(run(leases, bearer, batches));
        Self { queue, _task: task }
    }

    /// Sends one batch and waits for its answer.
    pub(super) async fn send(&self, items: Vec<Renewal>) -> Result<RenewResponse, Fault> {
        let (told, answer) = oneshot::channel();
        if self.queue.send(Batch { items, told }).await.is_err() {
            return Err(Fault::broken("the client was closed"));
        }
        answer.await.unwrap_or_else(|_| Err(Fault::broken("the keep-alive stream broke")))
    }
}

async fn run(leases: LeasesClient<Channel>, bearer: Bearer, mut batches: mpsc::Receiver<Batch>) {
    while let Some(first) = batches.recv().await {
        let (writer, written) = mpsc::channel(WRITING);
        let mut lane = Lane { writer, under_way: HashMap::new(), last: 0 };
        if !lane.send(first) {
            continue;
        }
        let request = bearer.on(Queue::new(written));
        let opened = leases.clone().max_decoding_message_size(MESSAGE).keep_alive(request).await;
        match opened {
            Ok(answers) => lane.drive(&mut batches, answers.into_inner()).await,
            Err(status) => lane.refused(status),
        }
    }
}

/// One stream while it lasts.
struct Lane {
    writer: mpsc::Sender<KeepAliveRequest>,
    under_way: HashMap<u64, Told>,
    last: u64,
}

impl Lane {
    /// Writes a batch, unless nobody waits for it any more.
    fn send(&mut self, batch: Batch) -> bool {
        if batch.told.is_closed() {
            return false;
        }
        self.last += 1;
        let request = KeepAliveRequest { id: self.last, items: batch.items };
        match self.writer.try_send(request) {
            Ok(()) => drop(self.under_way.insert(self.last, batch.told)),
            // Nobody hears: whoever waits for the answer learns that the stream broke.
            Err(_) => drop(batch.told),
        }
        true
    }

    /// Passes batches on and answers back until the stream ends.
    async fn drive(
        &mut self,
        batches: &mut mpsc::Receiver<Batch>,
        mut answers: Streaming<KeepAliveResponse>,
    ) {
        loop {
            if self.under_way.len() >= UNDER_WAY {
                self.under_way.retain(|_, told| !told.is_closed());
            }
            let room = self.under_way.len() < UNDER_WAY;
            tokio::select! {
                biased;
                answer = answers.message() => match answer {
                    Ok(Some(answer)) => self.answered(answer),
                    Ok(None) => return,
                    Err(status) => {
                        tracing::debug!(%status, "the keep-alive stream broke");
                        return;
                    }
                },
                batch = next(&self.writer, batches), if room => match batch {
                    Some(batch) => drop(self.send(batch)),
                    None => return,
                },
            }
        }
    }

    fn answered(&mut self, answer: KeepAliveResponse) {
        let Some(told) = self.under_way.remove(&answer.id) else { return };
        let outcome = match answer.outcome {
            Some(Outcome::Renewed(renewed)) => Ok(renewed),
            Some(Outcome::Problem(problem)) => Err(Fault::Answered(problem.into())),
            None => Err(Fault::broken("the server's answer is empty")),
        };
        // Who asked may have given up.
        drop(told.send(outcome));
    }

    /// Tells whoever waits why the stream could not be opened.
    fn refused(mut self, status: Status) {
        let mut fault = Some(Fault::from(status));
        for told in self.under_way.drain().map(|(_, told)| told) {
            let why = || Fault::broken("the keep-alive stream could not be opened");
            drop(told.send(Err(fault.take().unwrap_or_else(why))));
        }
    }
}

/// The next batch, once the connection has room for it. Dropping the future loses no batch.
async fn next(writer: &mpsc::Sender<KeepAliveRequest>, batches: &mut mpsc::Receiver<Batch>) -> Option<Batch> {
    let _room = writer.reserve().await.ok()?;
    batches.recv().await
}
