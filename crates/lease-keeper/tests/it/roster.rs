//! Live members.

use tenure_keeper::{Keeper, Member, Roster};
use tenure_lease::{Clock, End, Meta};

use crate::faults::{ALWAYS, Kind};
use crate::fixture::{Fixture, TTL, ms, prefix, terms};

async fn join(keeper: &Keeper, name: &str) -> Roster {
    let meta = Meta::new(format!("{name}:7400")).unwrap();
    Roster::join(keeper, prefix("node/"), name, meta, terms()).await.unwrap()
}

fn names(members: &[Member]) -> Vec<&str> {
    members.iter().map(|member| member.name.as_str()).collect()
}

#[tokio::test(start_paused = true)]
async fn live_members_see_each_other_and_their_descriptions() {
    let fixture = Fixture::new();
    let one = join(&fixture.keeper, "n1").await;
    let _two = join(&fixture.other("b"), "n2").await;
    let live = one.live().await.unwrap();
    assert_eq!(names(&live), ["n1", "n2"]);
    assert_eq!(live[1].meta.as_str(), "n2:7400");
    fixture.pass(TTL * 4).await;
    assert_eq!(one.live().await.unwrap(), live);
}

#[tokio::test(start_paused = true)]
async fn leaving_is_seen_at_once_and_dying_after_the_ttl() {
    let fixture = Fixture::new();
    let one = join(&fixture.keeper, "n1").await;
    let other = fixture.other("b");
    let two = join(&other, "n2").await;
    let seen = one.live().await.unwrap();
    let start = fixture.clock.now();
    let (left, ()) = tokio::join!(one.changed(&seen), two.leave());
    assert_eq!(names(&left.unwrap()), ["n1"]);
    assert!(fixture.clock.now().since(start) < ms(10));

    let two = join(&other, "n2").await;
    let seen = one.live().await.unwrap();
    // It dies: nothing it sends arrives.
    fixture.store.faults.inject_for("renew", "node/n2", Kind::Hang, ALWAYS);
    let died = one.changed(&seen).await.unwrap();
    assert_eq!(names(&died), ["n1"]);
    drop(two);
}

#[tokio::test(start_paused = true)]
async fn a_lost_membership_is_acquired_again() {
    let fixture = Fixture::new();
    let one = join(&fixture.keeper, "n1").await;
    let before = one.live().await.unwrap();
    fixture.store.end("node/n1", End::Gone);
    fixture.pass(TTL).await;
    let after = one.live().await.unwrap();
    assert_eq!(names(&after), ["n1"]);
    assert!(after[0].generation > before[0].generation);
}

#[tokio::test(start_paused = true)]
async fn a_restart_within_the_ttl_waits_for_its_predecessor_and_others_see_no_gap() {
    let fixture = Fixture::new();
    let watcher = join(&fixture.keeper, "w").await;
    let first = fixture.other("first");
    let old = join(&first, "n1").await;
    // The process dies without a release.
    fixture.store.faults.inject_for("renew", "node/n1", Kind::Refused, 3);
    fixture.store.faults.inject_for("release", "node/n1", Kind::Hang, ALWAYS);
    drop(old);
    let again = join(&fixture.other("second"), "n1").await;
    assert_eq!(names(&watcher.live().await.unwrap()), ["n1", "w"]);
    assert_eq!(again.key().as_str(), "node/n1");
}

#[tokio::test(start_paused = true)]
async fn a_settled_roster_has_been_quiet_for_a_while() {
    let fixture = Fixture::new();
    let one = join(&fixture.keeper, "n1").await;
    let other = fixture.other("b");
    let start = fixture.clock.now();
    let joining = async {
        fixture.pass(800).await;
        let two = join(&other, "n2").await;
        fixture.pass(800).await;
        (two, join(&other, "n3").await)
    };
    let (settled, _keep) = tokio::join!(one.settle(ms(1_000)), joining);
    assert_eq!(names(&settled.unwrap()), ["n1", "n2", "n3"]);
    assert!(fixture.clock.now().since(start) >= ms(2_600));
}
