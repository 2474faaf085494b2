//! Panics of actors are caught and counted.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;

use crate::actor::ActorType;
use crate::metric;

/// How an actor ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Exit<T> {
    /// Normally, with this value.
    Clean(T),
    /// In a panic, with its message.
    Panicked(String),
}

/// Runs `work` of an actor and catches its panic.
pub(crate) fn supervise<T>(kind: ActorType, work: impl Future<Output = T>) -> impl Future<Output = Exit<T>> {
    // Not an async function, which would store `work` twice.
    AssertUnwindSafe(work).catch_unwind().map(move |done| match done {
        Ok(done) => Exit::Clean(done),
        Err(panic) => {
            let message = panic_message(&*panic);
            metric::panicked(kind, &message);
            Exit::Panicked(message)
        }
    })
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_with_its_message() {
        assert_eq!(supervise(ActorType::Meeting, async { 7 }).await, Exit::Clean(7));
        let exit = supervise(ActorType::Meeting, async { panic!("at {}", 3) }).await;
        assert_eq!(exit, Exit::<()>::Panicked("at 3".to_owned()));
        let exit = supervise(ActorType::Meeting, async { panic!("plain") }).await;
        assert_eq!(exit, Exit::<()>::Panicked("plain".to_owned()));
    }
}
