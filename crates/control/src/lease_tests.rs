use super::*;

const TTL: u32 = 5_000;
const A: &str = "2Ab8P9Qk0kY2eP7nX7c2Yw";
const B: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const ID: &str = "cl_9f4a2137c1d6";

/// A way to end a lease.
type EndLease = fn(&mut LeaseMachine) -> Option<LeaseEnd>;

fn owner(client: u32) -> LeaseOwner {
    LeaseOwner { client, name: "K1 Composer".into(), instance: "i".into() }
}

fn active_machine(at: UptimeMs) -> LeaseMachine {
    let mut machine = LeaseMachine::new(TTL, 1_000);
    machine.grant(ID.into(), Token::parse(A).unwrap(), owner(12), at);
    machine
}

/// Start times before, at and after the wrap of the 32-bit counter.
fn starts() -> [UptimeMs; 4] {
    [UptimeMs(0), UptimeMs(1_205_530), UptimeMs(u32::MAX - 2_500), UptimeMs(u32::MAX)]
}

#[test]
fn acquire_finds_a_free_an_owned_or_a_locked_lease() {
    for start in starts() {
        let mut machine = LeaseMachine::new(TTL, 1_000);
        assert_eq!(machine.check_acquire(12, start), AcquireCheck::Free);
        let view = machine.grant(ID.into(), Token::parse(A).unwrap(), owner(12), start);
        assert_eq!((view.active, view.remaining, view.expires), (true, TTL, start.plus(TTL)));
        let later = start.plus(1_880);
        let AcquireCheck::Locked(view) = machine.check_acquire(13, later) else { panic!("{start:?}") };
        assert_eq!((view.remaining, view.owner.name.as_str()), (3_120, "K1 Composer"));
        let AcquireCheck::Owned(view) = machine.check_acquire(12, later) else { panic!("{start:?}") };
        assert_eq!((view.id.as_str(), view.acquired, view.remaining), (ID, start, TTL));
        assert_eq!(machine.token(12, later).unwrap().reveal(), A);
        assert!(machine.token(13, later).is_none());
        assert_eq!(machine.check_acquire(13, later.plus(TTL)), AcquireCheck::Free, "expired without a timer");
    }
}

#[test]
fn heartbeats_check_lease_then_owner_then_token() {
    for start in starts() {
        let mut machine = LeaseMachine::new(TTL, 1_000);
        assert_eq!(machine.heartbeat(12, ID, A, start), Err(LeaseDenial::Expired), "no lease");
        let mut machine = active_machine(start);
        let at = start.plus(1_000);
        assert!(
            matches!(machine.heartbeat(13, ID, A, at), Err(LeaseDenial::Locked(_))),
            "correct token on another connection"
        );
        assert!(matches!(machine.heartbeat(13, "x", "y", at), Err(LeaseDenial::Locked(_))));
        for (id, token) in [(ID, B), ("cl_000000000000", A), (ID, ""), (ID, "short"), ("", A)] {
            assert_eq!(machine.heartbeat(12, id, token, at), Err(LeaseDenial::Invalid), "{id} {token}");
        }
        assert_eq!(machine.view(at).remaining, 4_000, "a refusal does not extend the lease");
        let view = machine.heartbeat(12, ID, A, at).unwrap();
        assert_eq!((view.remaining, view.expires, view.acquired), (TTL, at.plus(TTL), start));
        assert_eq!(machine.heartbeat(12, ID, A, at.plus(TTL)), Err(LeaseDenial::Expired));
        assert_eq!(
            machine.heartbeat(12, ID, A, at.plus(TTL + 1)),
            Err(LeaseDenial::Expired),
            "never revived"
        );
    }
}

#[test]
fn the_owner_is_never_refused_while_time_remains() {
    for start in starts() {
        for passed in [0, 1, 2_500, 4_998, 4_999] {
            let mut machine = active_machine(start);
            let now = start.plus(passed);
            assert!(machine.view(now).remaining > 0);
            assert_eq!(machine.ownership(Some(12), now), Ownership::Owner, "{passed}");
            assert_eq!(machine.check_proof(Some(A), None, now), ProofResult::Owner, "{passed}");
            assert!(machine.heartbeat(12, ID, A, now).is_ok(), "{passed}");
        }
        assert_eq!(active_machine(start).ownership(Some(12), start.plus(TTL)), Ownership::Inactive);
    }
}

#[test]
fn release_is_idempotent_and_only_for_the_owner() {
    let start = UptimeMs(u32::MAX - 100);
    let mut machine = active_machine(start);
    let at = start.plus(2_270);
    for (client, id, token) in [(13, ID, A), (12, ID, B), (12, "cl_0", A)] {
        assert_eq!(machine.release(client, id, token, "x", at), Err(LeaseDenial::Invalid));
    }
    let ended = machine.release(12, ID, A, "user_exit", at).unwrap().unwrap();
    assert_eq!((ended.event, ended.reason.as_str()), (LeaseEvent::Released, "user_exit"));
    assert!(!ended.view.active && ended.view.remaining == 0 && ended.view.id == ID);
    assert_eq!(ended.view.owner, owner(12));
    assert_eq!(machine.release(12, ID, A, "user_exit", at), Ok(None));
    assert_eq!(machine.release(99, "", "", "user_exit", at), Ok(None));
}

#[test]
fn a_lease_ends_exactly_once() {
    let start = UptimeMs(7);
    let shutdown: [(EndLease, LeaseEvent, &str); 4] = [
        (|m| m.expire(UptimeMs(7 + TTL)), LeaseEvent::Expired, "heartbeat_timeout"),
        (|m| m.disconnect(12), LeaseEvent::Released, "ws_disconnect"),
        (|m| m.revoke(ID, "revoked"), LeaseEvent::Released, "revoked"),
        (
            |m| m.release(12, ID, A, "user_release", UptimeMs(8)).unwrap(),
            LeaseEvent::Released,
            "user_release",
        ),
    ];
    for (end, event, reason) in shutdown {
        let mut machine = active_machine(start);
        assert!(machine.expire(UptimeMs(6 + TTL)).is_none(), "not yet");
        assert!(machine.disconnect(13).is_none() && machine.revoke("cl_other", "x").is_none());
        let ended = end(&mut machine).unwrap();
        assert_eq!((ended.event, ended.reason.as_str()), (event, reason));
        assert!(end(&mut machine).is_none() && machine.expire(UptimeMs(9_999_999)).is_none(), "{reason}");
        assert_eq!(machine.view(UptimeMs(8)), LeaseView::default());
        // The token of the ended lease is remembered until the next acquire.
        assert_eq!(machine.check_proof(Some(A), None, UptimeMs(8)), ProofResult::Expired, "{reason}");
        assert_eq!(machine.check_proof(Some(B), None, UptimeMs(8)), ProofResult::Free);
        assert_eq!(machine.check_proof(None, None, UptimeMs(8)), ProofResult::Free);
        machine.grant("cl_2".into(), Token::parse(B).unwrap(), owner(14), UptimeMs(9));
        assert_eq!(
            machine.check_proof(Some(A), None, UptimeMs(9)),
            ProofResult::Locked,
            "an old token is wrong"
        );
        assert_eq!(machine.check_proof(Some(A), Some("cl_2"), UptimeMs(9)), ProofResult::Invalid);
    }
}

#[test]
fn a_proof_depends_on_token_and_id() {
    for start in starts() {
        let machine = active_machine(start);
        let now = start.plus(1);
        for (token, id, expected) in [
            (None, None, ProofResult::Missing),
            (None, Some(ID), ProofResult::Missing),
            (Some(A), None, ProofResult::Owner),
            (Some(A), Some(ID), ProofResult::Owner),
            (Some(A), Some("cl_000000000000"), ProofResult::Locked),
            (Some(B), Some(ID), ProofResult::Invalid),
            (Some(B), None, ProofResult::Locked),
            (Some(B), Some("cl_000000000000"), ProofResult::Locked),
            (Some(""), Some(ID), ProofResult::Invalid),
            (Some("2Ab8P9Qk0kY2eP7nX7c2Yx"), None, ProofResult::Locked),
        ] {
            assert_eq!(machine.check_proof(token, id, now), expected, "{token:?} {id:?}");
        }
        // Expired, but not ended yet.
        assert_eq!(machine.check_proof(Some(A), None, start.plus(TTL)), ProofResult::Expired);
        assert_eq!(machine.check_proof(Some(B), None, start.plus(TTL)), ProofResult::Free);
    }
}
