use super::*;

const TTL: u32 = 5_000;
const A: &str = "2Ab8P9Qk0kY2eP7nX7c2Yw";
const B: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const ID: &str = "cl_9f4a2137c1d6";

/// A way for a lease to end.
type EndOf = fn(&mut Machine) -> Option<Ended>;

fn owner(client: u32) -> Owner {
    Owner { client, name: "K1 Composer".into(), instance: "i".into() }
}

fn held(at: Ms) -> Machine {
    let mut machine = Machine::new(TTL, 1_000);
    machine.grant(ID.into(), Token::parse(A).unwrap(), owner(12), at);
    machine
}

/// Every test runs before, at and over the wrap of the 32-bit counter.
fn starts() -> [Ms; 4] {
    [Ms(0), Ms(1_205_530), Ms(u32::MAX - 2_500), Ms(u32::MAX)]
}

#[test]
fn acquire_meets_a_free_lease_its_owner_or_a_lock() {
    for start in starts() {
        let mut machine = Machine::new(TTL, 1_000);
        assert_eq!(machine.ask(12, start), Asked::Free);
        let view = machine.grant(ID.into(), Token::parse(A).unwrap(), owner(12), start);
        assert_eq!((view.active, view.remaining, view.expires), (true, TTL, start.plus(TTL)));
        let later = start.plus(1_880);
        let Asked::Locked(view) = machine.ask(13, later) else { panic!("{start:?}") };
        assert_eq!((view.remaining, view.owner.name.as_str()), (3_120, "K1 Composer"));
        let Asked::Mine(view) = machine.ask(12, later) else { panic!("{start:?}") };
        assert_eq!((view.id.as_str(), view.acquired, view.remaining), (ID, start, TTL));
        assert_eq!(machine.secret(12, later).unwrap().reveal(), A);
        assert!(machine.secret(13, later).is_none());
        assert_eq!(machine.ask(13, later.plus(TTL)), Asked::Free, "expired without any sweep");
    }
}

#[test]
fn heartbeats_are_checked_in_the_order_held_owner_secret() {
    for start in starts() {
        let mut machine = Machine::new(TTL, 1_000);
        assert_eq!(machine.heartbeat(12, ID, A, start), Err(Denied::Expired), "nothing held");
        let mut machine = held(start);
        let at = start.plus(1_000);
        assert!(
            matches!(machine.heartbeat(13, ID, A, at), Err(Denied::Locked(_))),
            "right token, other socket"
        );
        assert!(matches!(machine.heartbeat(13, "x", "y", at), Err(Denied::Locked(_))));
        for (id, token) in [(ID, B), ("cl_000000000000", A), (ID, ""), (ID, "short"), ("", A)] {
            assert_eq!(machine.heartbeat(12, id, token, at), Err(Denied::Invalid), "{id} {token}");
        }
        assert_eq!(machine.view(at).remaining, 4_000, "refusals extend nothing");
        let view = machine.heartbeat(12, ID, A, at).unwrap();
        assert_eq!((view.remaining, view.expires, view.acquired), (TTL, at.plus(TTL), start));
        assert_eq!(machine.heartbeat(12, ID, A, at.plus(TTL)), Err(Denied::Expired));
        assert_eq!(machine.heartbeat(12, ID, A, at.plus(TTL + 1)), Err(Denied::Expired), "never revived");
    }
}

#[test]
fn the_owner_is_never_refused_while_time_remains() {
    for start in starts() {
        for passed in [0, 1, 2_500, 4_998, 4_999] {
            let mut machine = held(start);
            let now = start.plus(passed);
            assert!(machine.view(now).remaining > 0);
            assert_eq!(machine.standing(Some(12), now), Standing::Owner, "{passed}");
            assert_eq!(machine.prove(Some(A), None, now), Proof::Owner, "{passed}");
            assert!(machine.heartbeat(12, ID, A, now).is_ok(), "{passed}");
        }
        assert_eq!(held(start).standing(Some(12), start.plus(TTL)), Standing::Inactive);
    }
}

#[test]
fn release_is_idempotent_and_only_the_owners() {
    let start = Ms(u32::MAX - 100);
    let mut machine = held(start);
    let at = start.plus(2_270);
    for (client, id, token) in [(13, ID, A), (12, ID, B), (12, "cl_0", A)] {
        assert_eq!(machine.release(client, id, token, "x", at), Err(Denied::Invalid));
    }
    let ended = machine.release(12, ID, A, "user_exit", at).unwrap().unwrap();
    assert_eq!((ended.event, ended.reason.as_str()), (Event::Released, "user_exit"));
    assert!(!ended.view.active && ended.view.remaining == 0 && ended.view.id == ID);
    assert_eq!(ended.view.owner, owner(12));
    assert_eq!(machine.release(12, ID, A, "user_exit", at), Ok(None));
    assert_eq!(machine.release(99, "", "", "user_exit", at), Ok(None));
}

#[test]
fn a_lease_ends_once_however_it_ends() {
    let start = Ms(7);
    let ends: [(EndOf, Event, &str); 4] = [
        (|m| m.expire(Ms(7 + TTL)), Event::Expired, "heartbeat_timeout"),
        (|m| m.disconnect(12), Event::Released, "ws_disconnect"),
        (|m| m.revoke(ID, "revoked"), Event::Released, "revoked"),
        (|m| m.release(12, ID, A, "user_release", Ms(8)).unwrap(), Event::Released, "user_release"),
    ];
    for (end, event, reason) in ends {
        let mut machine = held(start);
        assert!(machine.expire(Ms(6 + TTL)).is_none(), "not yet");
        assert!(machine.disconnect(13).is_none() && machine.revoke("cl_other", "x").is_none());
        let ended = end(&mut machine).unwrap();
        assert_eq!((ended.event, ended.reason.as_str()), (event, reason));
        assert!(end(&mut machine).is_none() && machine.expire(Ms(9_999_999)).is_none(), "{reason}");
        assert_eq!(machine.view(Ms(8)), View::default());
        // However it ended, its token is remembered until the next acquire.
        assert_eq!(machine.prove(Some(A), None, Ms(8)), Proof::Expired, "{reason}");
        assert_eq!(machine.prove(Some(B), None, Ms(8)), Proof::Free);
        assert_eq!(machine.prove(None, None, Ms(8)), Proof::Free);
        machine.grant("cl_2".into(), Token::parse(B).unwrap(), owner(14), Ms(9));
        assert_eq!(machine.prove(Some(A), None, Ms(9)), Proof::Locked, "an old token is a wrong token");
        assert_eq!(machine.prove(Some(A), Some("cl_2"), Ms(9)), Proof::Invalid);
    }
}

#[test]
fn a_proof_is_judged_by_token_and_id() {
    for start in starts() {
        let machine = held(start);
        let now = start.plus(1);
        for (token, id, expected) in [
            (None, None, Proof::Missing),
            (None, Some(ID), Proof::Missing),
            (Some(A), None, Proof::Owner),
            (Some(A), Some(ID), Proof::Owner),
            (Some(A), Some("cl_000000000000"), Proof::Locked),
            (Some(B), Some(ID), Proof::Invalid),
            (Some(B), None, Proof::Locked),
            (Some(B), Some("cl_000000000000"), Proof::Locked),
            (Some(""), Some(ID), Proof::Invalid),
            (Some("2Ab8P9Qk0kY2eP7nX7c2Yx"), None, Proof::Locked),
        ] {
            assert_eq!(machine.prove(token, id, now), expected, "{token:?} {id:?}");
        }
        // Run out and not swept: the token of a lease that is over.
        assert_eq!(machine.prove(Some(A), None, start.plus(TTL)), Proof::Expired);
        assert_eq!(machine.prove(Some(B), None, start.plus(TTL)), Proof::Free);
    }
}
