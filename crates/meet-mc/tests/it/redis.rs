//! The ledger on Redis: the owner records, and two controllers that both believe that they own a meeting.

use std::sync::Arc;

use tenure_lease::{Revoke, RevokeReason, Store};
use tenure_meet_mc::LedgerError;
use tenure_meet_mc::meeting::Role;
use tenure_store::Redis;
use tenure_testkit::RedisServer;

use crate::fixture::Mc;

async fn open(server: &RedisServer) -> Arc<dyn Store> {
    Arc::new(Redis::open(&format!("{}?quarantine_ms=0", server.url())).await.unwrap())
}

fn say(server: &RedisServer, words: &[&str]) -> String {
    let reply = server.command(words).unwrap();
    reply.int().map_or_else(|| reply.text().unwrap().to_owned(), |number| number.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owner_records_show_the_last_writer_and_never_expire() {
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
    second.revoke(Revoke { key, generation, delay, reason: RevokeReason::default() }).await.unwrap();
    let mut two = Mc::take(&second, "mc-2").await.unwrap();
    let before = two.state.log.last();
    one.chat(&ada.seat, "from the past").await.unwrap();
    let written = one.ledger.flush().await;
    assert!(written.as_ref().is_err_and(LedgerError::ends_ownership), "{written:?}");
    two.seat("bob", Role::Participant).await.unwrap();
    assert_eq!(two.state.log.last(), before + 1, "the log has no gap and nothing of the old owner");
    assert_eq!(say(&server, &["GET", "meeting:abc:mc"]), "mc-2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_controller_id_with_the_same_generation_is_a_split_brain() {
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
