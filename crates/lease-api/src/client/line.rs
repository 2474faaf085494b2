//! One stream that renewals, claims and releases travel on: also claims that wait in line, as long as they are not too
//! many.
//!
//! Who asks hands the question to the connection himself. One task opens the stream, gives out the answers and moves the
//! connection below: a question and its answer are two changes of task and no more.

use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use service::Convoy;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

use super::bearer::Bearer;
use super::fault::Fault;
use crate::MESSAGE;
use crate::convert::ENGINE;
use crate::wire::keep_alive_request::Ask;
use crate::wire::keep_alive_response::Outcome;
use crate::wire::leases_client::LeasesClient;
use crate::wire::{
    AcquireRequest, AcquireResponse, CancelRequest, KeepAliveRequest, KeepAliveResponse, ReleaseRequest,
    ReleaseResponse, RenewRequest, RenewResponse, Renewal,
};

/// Questions handed to the connection and not yet written.
const WRITING: usize = 256;
/// Claims that wait in line through the stream; a server takes 1,024.
const WAITING: usize = 1_000;

/// The way to the stream. The stream is opened by the first question, and again after it broke.
pub(super) struct Line {
    desk: Arc<Desk>,
    places: Arc<Semaphore>,
    _task: JoinSet<()>,
}

/// Where questions are handed in and answers are waited for.
struct Desk {
    open: Mutex<Open>,
    /// Rings when a claim that waited was given up.
    given_up: Notify,
    /// Questions under way that do not wait in line.
    asked: AtomicUsize,
}

/// The stream of now.
struct Open {
    writer: mpsc::Sender<KeepAliveRequest>,
    under_way: HashMap<u64, Told>,
    given_up: Vec<u64>,
    last: u64,
    /// Answers since anything was sent.
    answers: usize,
}

type Told = oneshot::Sender<Result<Outcome, Fault>>;

/// A place for a claim that waits.
pub(super) struct Place {
    _permit: OwnedSemaphorePermit,
}

impl Line {
    /// Starts the task that the connection below `leases` runs in as well.
    pub(super) fn start(leases: LeasesClient<Channel>, bearer: Bearer, convoy: Convoy) -> Self {
        let (writer, written) = mpsc::channel(WRITING);
        let desk = Arc::new(Desk::new(writer));
        let mut task = JoinSet::new();
        task.spawn(convoy.lead(run(leases, bearer, desk.clone(), written)));
        Self { desk, places: Arc::new(Semaphore::new(WAITING)), _task: task }
    }

    pub(super) async fn renew(&self, items: Vec<Renewal>) -> Result<RenewResponse, Fault> {
        match self.ask(Ask::Renew(RenewRequest { items }), None).await? {
            Outcome::Renewed(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    pub(super) async fn acquire(&self, claim: AcquireRequest) -> Result<AcquireResponse, Fault> {
        match self.ask(Ask::Acquire(claim), None).await? {
            Outcome::Acquired(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    /// How many questions are under way, but for claims that wait in line.
    pub(super) fn asked(&self) -> usize {
        self.desk.asked.load(Ordering::Relaxed)
    }

    /// A place for a claim that waits, if there is one left.
    pub(super) fn place(&self) -> Option<Place> {
        self.places.clone().try_acquire_owned().ok().map(|_permit| Place { _permit })
    }

    /// A claim that may wait. Dropping the future leaves the line.
    pub(super) async fn wait(&self, place: Place, claim: AcquireRequest) -> Result<AcquireResponse, Fault> {
        match self.ask(Ask::Acquire(claim), Some(place)).await? {
            Outcome::Acquired(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    pub(super) async fn release(&self, release: ReleaseRequest) -> Result<ReleaseResponse, Fault> {
        match self.ask(Ask::Release(release), None).await? {
            Outcome::Released(answer) => Ok(answer),
            _ => Err(strange()),
        }
    }

    /// Sends one question and waits for its answer.
    async fn ask(&self, ask: Ask, place: Option<Place>) -> Result<Outcome, Fault> {
        let (told, answer) = oneshot::channel();
        let (id, writer) = self.desk.open.lock().expect(told);
        let mut asking = Asking::new(&self.desk, id, place);
        if writer.send(KeepAliveRequest { id, ask: Some(ask) }).await.is_err() {
            return Err(Fault::broken(BROKE));
        }
        let outcome = answer.await.unwrap_or_else(|_| Err(Fault::broken(BROKE)));
        asking.answered = true;
        outcome
    }
}

const BROKE: &str = "the keep-alive stream broke";

/// A question that was asked. One that is given up is not waited for any more, and a claim leaves its line.
struct Asking<'a> {
    desk: &'a Desk,
    id: u64,
    place: Option<Place>,
    answered: bool,
}

impl<'a> Asking<'a> {
    fn new(desk: &'a Desk, id: u64, place: Option<Place>) -> Self {
        if place.is_none() {
            desk.asked.fetch_add(1, Ordering::Relaxed);
        }
        Self { desk, id, place, answered: false }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if self.place.is_none() {
            self.desk.asked.fetch_sub(1, Ordering::Relaxed);
        }
        if self.answered {
            return;
        }
        let mut open = self.desk.open.lock();
        if open.under_way.remove(&self.id).is_some() && self.place.is_some() {
            open.given_up.push(self.id);
            self.desk.given_up.notify_one();
        }
    }
}

impl Open {
    /// Notes who waits for an answer; gives the question's number and the way for it.
    fn expect(&mut self, told: Told) -> (u64, mpsc::Sender<KeepAliveRequest>) {
        self.last += 1;
        self.under_way.insert(self.last, told);
        (self.last, self.writer.clone())
    }
}

impl Desk {
    fn new(writer: mpsc::Sender<KeepAliveRequest>) -> Self {
        let open = Open { writer, under_way: HashMap::new(), given_up: Vec::new(), last: 0, answers: 0 };
        Self { open: Mutex::new(open), given_up: Notify::new(), asked: AtomicUsize::new(0) }
    }

    /// Begins anew; whoever waits for an answer of the stream before learns that it broke.
    fn begin(&self) -> mpsc::Receiver<KeepAliveRequest> {
        let (writer, written) = mpsc::channel(WRITING);
        let waiting = {
            let mut open = self.open.lock();
            open.writer = writer;
            open.given_up.clear();
            std::mem::take(&mut open.under_way)
        };
        drop(waiting);
        written
    }

    fn answered(&self, answer: KeepAliveResponse) {
        let told = {
            let mut open = self.open.lock();
            open.answers += 1;
            open.under_way.remove(&answer.id)
        };
        // Who asked may have given up.
        let Some(told) = told else { return };
        let outcome = match answer.outcome {
            Some(Outcome::Problem(problem)) => Err(Fault::Answered(problem.into())),
            Some(outcome) => Ok(outcome),
            None => Err(Fault::broken("the server's answer is empty")),
        };
        drop(told.send(outcome));
    }

    /// Tells whoever waits why the stream could not be opened.
    fn refused(&self, status: &Status) {
        let waiting = std::mem::take(&mut self.open.lock().under_way);
        for told in waiting.into_values() {
            drop(told.send(Err(Fault::from(status.clone()))));
        }
    }

    /// A claim that was given up, once there is one.
    async fn next_given_up(&self) -> u64 {
        loop {
            if let Some(id) = self.open.lock().given_up.pop() {
                return id;
            }
            self.given_up.notified().await;
        }
    }

    /// Takes given-up claims out of their lines, for as long as the stream lasts.
    async fn take_back(&self) {
        let writer = self.open.lock().writer.clone();
        loop {
            let id = self.next_given_up().await;
            let cancel = KeepAliveRequest { id: 0, ask: Some(Ask::Cancel(CancelRequest { id })) };
            if writer.send(cancel).await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

/// The questions as they are sent. When many were just answered, most of them will ask again at once: they get the
/// time for it, and then it leaves together.
struct Questions {
    desk: Arc<Desk>,
    written: mpsc::Receiver<KeepAliveRequest>,
    /// How often others may still have their turn before something is sent.
    patience: u8,
}

/// As many answers at once are many.
const MANY: usize = 8;
/// How often others have their turn.
const PATIENCE: u8 = 3;

impl Questions {
    fn new(desk: Arc<Desk>, written: mpsc::Receiver<KeepAliveRequest>) -> Self {
        Self { desk, written, patience: PATIENCE }
    }

    /// Whether more questions are about to come.
    fn expects_more(&self) -> bool {
        if self.patience == 0 || self.written.is_empty() {
            return false;
        }
        let answers = self.desk.open.lock().answers;
        answers >= MANY && self.written.len() < answers / 4 * 3
    }
}

impl Stream for Questions {
    type Item = KeepAliveRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<KeepAliveRequest>> {
        if self.expects_more() {
            self.patience -= 1;
            // Wakes this stream once others had their turn.
            let _ = pin!(tokio::task::yield_now()).poll(context);
            return Poll::Pending;
        }
        let next = self.written.poll_recv(context);
        match next.is_pending() {
            true => {
                self.patience = PATIENCE;
                self.desk.open.lock().answers = 0;
            }
            // Once something leaves, all leaves.
            false => self.patience = 0,
        }
        next
    }
}

fn strange() -> Fault {
    Fault::Answered(lease::Error::unknown(ENGINE, "the server answered something else than was asked"))
}

async fn run(
    leases: LeasesClient<Channel>,
    bearer: Bearer,
    desk: Arc<Desk>,
    mut written: mpsc::Receiver<KeepAliveRequest>,
) {
    while let Some(first) = written.recv().await {
        let questions = Questions::new(desk.clone(), written);
        let questions = stream::iter([first]).chain(questions);
        let request = bearer.on(questions);
        let opened = leases.clone().max_decoding_message_size(MESSAGE).keep_alive(request).await;
        match opened {
            Ok(answers) => {
                tokio::select! {
                    biased;
                    () = give_out(&desk, answers.into_inner()) => {}
                    () = desk.take_back() => {}
                }
            }
            Err(status) => desk.refused(&status),
        }
        written = desk.begin();
    }
}

/// Gives out answers until the stream ends.
async fn give_out(desk: &Desk, mut answers: Streaming<KeepAliveResponse>) {
    loop {
        match answers.message().await {
            Ok(Some(answer)) => desk.answered(answer),
            Ok(None) => return,
            Err(status) => {
                tracing::debug!(%status, "the keep-alive stream broke");
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream after so many answers.
    fn questions(answers: usize) -> (mpsc::Sender<KeepAliveRequest>, Questions) {
        let (writer, written) = mpsc::channel(WRITING);
        let desk = Desk::new(writer.clone());
        desk.open.lock().answers = answers;
        (writer, Questions::new(Arc::new(desk), written))
    }

    fn ask(writer: &mpsc::Sender<KeepAliveRequest>, count: usize) {
        (0..count).for_each(|_| writer.try_send(KeepAliveRequest { id: 1, ask: None }).unwrap());
    }

    /// How many questions leave now.
    fn leaving(questions: &mut Questions) -> usize {
        let mut context = Context::from_waker(std::task::Waker::noop());
        std::iter::from_fn(|| match questions.poll_next_unpin(&mut context) {
            Poll::Ready(question) => question,
            Poll::Pending => None,
        })
        .count()
    }

    #[tokio::test]
    async fn a_question_leaves_at_once_unless_many_were_just_answered() {
        for answers in [0, 1, MANY - 1] {
            let (writer, mut questions) = questions(answers);
            ask(&writer, 1);
            assert_eq!(leaving(&mut questions), 1, "after {answers} answers");
        }
    }

    #[tokio::test]
    async fn those_who_were_answered_together_ask_together() {
        let (writer, mut questions) = questions(MANY);
        ask(&writer, 1);
        assert_eq!(leaving(&mut questions), 0);
        ask(&writer, MANY - 2);
        assert_eq!(leaving(&mut questions), MANY - 1);
        ask(&writer, 1);
        assert_eq!(leaving(&mut questions), 1, "who comes later does not wait for the others again");
    }

    #[tokio::test]
    async fn nobody_waits_for_those_who_do_not_ask_again() {
        let (writer, mut questions) = questions(MANY);
        ask(&writer, 1);
        for _ in 0..PATIENCE {
            assert_eq!(leaving(&mut questions), 0);
        }
        assert_eq!(leaving(&mut questions), 1);
    }
}
