//! Who is alive.

use lease::{Clock, End, Meta};
use lease_keeper::{Keeper, Member, Roster};

use crate::bench::{Bench, TTL, ms, prefix, terms};
use crate::faults::{ALWAYS, Kind};

async fn join(keeper: &Keeper, name: &str) -> Roster {
    let meta = Meta::new(format!("{name}:7400")).unwrap();
    Roster::join(keeper, prefix("node/"), name, meta, terms()).await.unwrap()
}

fn names(members: &[Member]) -> Vec<&str> {
    members.iter().map(|member| member.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn the_living_see_each_other_and_what_they_say() {
    let bench = Bench::new();
    let one = join(&bench.keeper, "n1").await;
    let _two = join(&bench.other("b"), "n2").await;
    let live = one.live().await.unwrap();
    assert_eq!(names(&live), ["n1", "n2"]);
    assert_eq!(live[1].meta.as_str(), "n2:7400");
    bench.pass(TTL * 4).await;
    assert_eq!(one.live().await.unwrap(), live);
}

#[tokio::test(start_paused = true)]
async fn leaving_is_seen_at_once_and_dying_after_the_ttl() {
    let bench = Bench::new();
    let one = join(&bench.keeper, "n1").await;
    let other = bench.other("b");
    let two = join(&other, "n2").await;
    let seen = one.live().await.unwrap();
    let start = bench.clock.now();
    let (left, ()) = tokio::join!(one.changed(&seen), two.leave());
    assert_eq!(names(&left.unwrap()), ["n1"]);
    assert!(bench.clock.now().since(start) < ms(10));

    let two = join(&other, "n2").await;
    let seen = one.live().await.unwrap();
    // It dies: nothing it sends arrives any more.
    bench.store.faults.inject_for("renew", "node/n2", Kind::Hang, ALWAYS);
    let died = one.changed(&seen).await.unwrap();
    assert_eq!(names(&died), ["n1"]);
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_was_lost_is_taken_again() {
    let bench = Bench::new();
    let one = join(&bench.keeper, "n1").await;
    let before = one.live().await.unwrap();
    bench.store.end("node/n1", End::Gone);
    bench.pass(TTL).await;
    let after = one.live().await.unwrap();
    assert_eq!(names(&after), ["n1"]);
    assert!(after[0].generation > before[0].generation);
}

#[tokio::test(start_paused = true)]
async fn a_restart_within_the_ttl_waits_for_its_earlier_self_and_others_see_no_gap() {
    let bench = Bench::new();
    let watcher = join(&bench.keeper, "w").await;
    let first = bench.other("first");
    let old = join(&first, "n1").await;
    // The process dies without a word.
    bench.store.faults.inject_for("renew", "node/n1", Kind::Refused, 3);
    bench.store.faults.inject_for("release", "node/n1", Kind::Hang, ALWAYS);
    drop(old);
    let again = join(&bench.other("second"), "n1").await;
    assert_eq!(names(&watcher.live().await.unwrap()), ["n1", "w"]);
    assert_eq!(again.key().as_str(), "node/n1");
}

#[tokio::test(start_paused = true)]
async fn a_settled_roster_has_been_quiet_for_a_while() {
    let bench = Bench::new();
    let one = join(&bench.keeper, "n1").await;
    let other = bench.other("b");
    let start = bench.clock.now();
    let joining = async {
        bench.pass(800).await;
        let two = join(&other, "n2").await;
        bench.pass(800).await;
        (two, join(&other, "n3").await)
    };
    let (settled, _keep) = tokio::join!(one.settle(ms(1_000)), joining);
    assert_eq!(names(&settled.unwrap()), ["n1", "n2", "n3"]);
    assert!(bench.clock.now().since(start) >= ms(2_600));
}
