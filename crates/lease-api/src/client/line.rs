//! The one stream that renewals travel on, and the claims and releases that do not wait.

use std::collections::HashMap;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::bearer::Bearer;
use super::fault::Fault;
use crate::MESSAGE;
use crate::convert::ENGINE;
use crate::stream::Queue;
use crate::wire::keep_alive_request::Ask;
use crate::wire::keep_alive_response::Outcome;
use crate::wire::leases_client::LeasesClient;
use crate::wire::{
    AcquireRequest, AcquireResponse, KeepAliveRequest, KeepAliveResponse, ReleaseRequest, ReleaseResponse,
    RenewRequest, RenewResponse, Renewal,
};

/// Questions waiting for the stream.
const WAITING: usize = 256;
/// Questions handed to the connection and not yet written.
const WRITING: usize = 64;
/// Questions on their way to the server and back.
const UNDER_WAY: usize = 1_024;

/// The way to the stream. The stream is opened by the first question, and again after it broke.
pub(super) struct Line {
    queue: mpsc::Sender<Question>,
    _task: JoinSet<()>,
}

struct Question {
    ask: Ask,
    told: Told,
}

type Told = oneshot::Sender<Result<Outcome, Fault>>;

impl Line {
    pub(super) fn start(leases: LeasesClient<Channel>, bearer: Bearer) -> Self {
        let (queue, questions) = mpsc::channel(WAITING);
        let mut task = JoinSet::new();
        task.spawn(run(leases, bearer, questions));
        Self { queue, _task: task }
    }

    pub(super) async fn renew(&self, items: Vec<Renewal>) -> Result<RenewResponse, Fault> {
        match self.ask(Ask::Renew(RenewRequest { items })).await? {
            Outcome::Renewed(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    pub(super) async fn acquire(&self, claim: AcquireRequest) -> Result<AcquireResponse, Fault> {
        match self.ask(Ask::Acquire(claim)).await? {
            Outcome::Acquired(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    pub(super) async fn release(&self, release: ReleaseRequest) -> Result<ReleaseResponse, Fault> {
        match self.ask(Ask::Release(release)).await? {
            Outcome::Released(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    /// Sends one question and waits for its answer.
    async fn ask(&self, ask: Ask) -> Result<Outcome, Fault> {
        let (told, answer) = oneshot::channel();
        if self.queue.send(Question { ask, told }).await.is_err() {
            return Err(Fault::broken("the client was closed"));
        }
        answer.await.unwrap_or_else(|_| Err(Fault::broken("the keep-alive stream broke")))
    }
}

fn strange() -> Fault {
    Fault::Answered(lease::Error::unknown(ENGINE, "the server answered something else than was asked"))
}

async fn run(leases: LeasesClient<Channel>, bearer: Bearer, mut questions: mpsc::Receiver<Question>) {
    while let Some(first) = questions.recv().await {
        let (writer, written) = mpsc::channel(WRITING);
        let mut wire = Wire { writer, under_way: HashMap::new(), last: 0 };
        if !wire.send(first) {
            continue;
        }
        let request = bearer.on(Queue::new(written));
        let opened = leases.clone().max_decoding_message_size(MESSAGE).keep_alive(request).await;
        match opened {
            Ok(answers) => wire.drive(&mut questions, answers.into_inner()).await,
            Err(status) => wire.refused(status),
        }
    }
}

/// One stream while it lasts.
struct Wire {
    writer: mpsc::Sender<KeepAliveRequest>,
    under_way: HashMap<u64, Told>,
    last: u64,
}

impl Wire {
    /// Writes a question, unless nobody waits for its answer any more.
    fn send(&mut self, question: Question) -> bool {
        if question.told.is_closed() {
            return false;
        }
        self.last += 1;
        let request = KeepAliveRequest { id: self.last, ask: Some(question.ask) };
        match self.writer.try_send(request) {
            Ok(()) => drop(self.under_way.insert(self.last, question.told)),
            // Nobody hears: whoever waits for the answer learns that the stream broke.
            Err(_) => drop(question.told),
        }
        true
    }

    /// Passes questions on and answers back until the stream ends.
    async fn drive(
        &mut self,
        questions: &mut mpsc::Receiver<Question>,
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
                question = next(&self.writer, questions), if room => match question {
                    Some(question) => drop(self.send(question)),
                    None => return,
                },
            }
        }
    }

    fn answered(&mut self, answer: KeepAliveResponse) {
        let Some(told) = self.under_way.remove(&answer.id) else { return };
        let outcome = match answer.outcome {
            Some(Outcome::Problem(problem)) => Err(Fault::Answered(problem.into())),
            Some(outcome) => Ok(outcome),
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

/// The next question, once the connection has room for it. Dropping the future loses none.
async fn next(
    writer: &mpsc::Sender<KeepAliveRequest>,
    questions: &mut mpsc::Receiver<Question>,
) -> Option<Question> {
    let _room = writer.reserve().await.ok()?;
    questions.recv().await
}
