//! The ledger on Redis: what operators see, and two controllers that both believe.

use std::sync::Arc;

use lease::{Motive, Revoke, Store};
use lease_store::Redis;
use meet_mc::LedgerError;
use meet_mc::meeting::Role;
use testkit::RedisServer;

use crate::house::Mc;

async fn open(server: &RedisServer) -> Arc<dyn Store> {
    Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap())
}

fn say(server: &RedisServer, words: &[&str]) -> String {
    let reply = server.command(words).unwrap();
    reply.int().map_or_else(|| reply.text().unwrap().to_owned(), |number| number.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_see_generation_and_controller_of_the_last_write_without_an_end() {
    let server = RedisServer::start().unwrap();
    let mut mc = Mc::take(&open(&server).await, "mc-1").await.unwrap();
    mc.seat("ada", Role::Host).await.unwrap();
    assert_eq!(say(&server, &["GET", "meeting:abc:gen"]), mc.guard.generation().to_string());
    assert_eq!(say(&server, &["GET", "meeting:abc:mc"]), "mc-1");
    assert_eq!(say(&server, &["TTL", "meeting:abc:gen"]), "-1");
    assert_eq!(say(&server, &["TTL", "meeting:abc:mc"]), "-1");
    assert_eq!(say(&server, &["GET", "meeting:abc"]), "mc-1", "the holder of the lease is the assignment");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_lost_the_meeting_is_fenced_out_at_its_first_write() {
    let server = RedisServer::start().unwrap();
    let (first, second) = (open(&server).await, open(&server).await);
    let mut one = Mc::take(&first, "mc-1").await.unwrap();
    let ada = one.seat("ada", Role::Host).await.unwrap();
    let delay = Some(std::time::Duration::ZERO);
    let (key, generation) = (one.guard.key().clone(), one.guard.generation());
    second.revoke(Revoke { key, generation, delay, reason: Motive::default() }).await.unwrap();
    let mut two = Mc::take(&second, "mc-2").await.unwrap();
    let before = two.state.journal.last();
    one.chat(&ada.seat, "from the past").await.unwrap();
    let written = one.ledger.flush().await;
    assert!(written.as_ref().is_err_and(LedgerError::ends_ownership), "{written:?}");
    two.seat("bob", Role::Participant).await.unwrap();
    assert_eq!(two.state.journal.last(), before + 1, "the log has no gap and nothing of the old owner");
    assert_eq!(say(&server, &["GET", "meeting:abc:mc"]), "mc-2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controllers_name_under_the_same_generation_is_a_split_brain() {
    let server = RedisServer::start().unwrap();
    let mut mc = Mc::take(&open(&server).await, "mc-1").await.unwrap();
    mc.seat("ada", Role::Host).await.unwrap();
    say(&server, &["SET", "meeting:abc:mc", "mc-9"]);
    let before = mc.state.clone();
    let written = mc.seat("bob", Role::Participant).await.map(|_| ());
    assert_eq!(written, Err(LedgerError::SplitBrain("mc-9".to_owned())));
    assert_eq!(mc.state, before);
    assert_eq!(say(&server, &["GET", "meeting:abc:mc"]), "mc-9", "nothing was written over it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_greater_generation_in_the_record_fences_out() {
    let server = RedisServer::start().unwrap();
    let mut mc = Mc::take(&open(&server).await, "mc-1").await.unwrap();
    say(&server, &["SET", "meeting:abc:gen", &(mc.guard.generation().get() + 1).to_string()]);
    let written = mc.seat("ada", Role::Host).await.map(|_| ());
    assert_eq!(written, Err(LedgerError::FencedOut));
}
