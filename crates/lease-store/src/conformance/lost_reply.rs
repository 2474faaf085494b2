//! A request whose reply is lost may have happened, and its error says so.

use tenure_lease::{Error, Outcome, Phase, Released};

use super::verbs::put;
use super::{Harness, expect_ok};

#[track_caller]
fn assert_unknown<T: std::fmt::Debug>(answer: tenure_lease::Result<T>) {
    match answer {
        Err(error) => assert_eq!(error.outcome(), Outcome::Indeterminate, "{error:?}"),
        Ok(answer) => panic!("answered without a reply: {answer:?}"),
    }
}

pub async fn a_write_may_have_happened(harness: &Harness) {
    let record = harness.key("r");
    // Once before, so that the server has what the verb needs.
    harness.put(&record, "0").await;
    harness.lose_replies(true);
    assert_unknown(harness.store().commit(&[put(&record, "1")]).await);
    harness.lose_replies(false);
    harness.assert_record(&record, Some("1")).await;
}

pub async fn a_revocation_may_have_happened(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.revoke(&harness.hold(&harness.key("before"), "ann").await, None).await;
    harness.lose_replies(true);
    assert_unknown(harness.store().revoke(held.revoke(None)).await);
    harness.lose_replies(false);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Delayed);
}

pub async fn a_release_may_have_happened(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.release_held(&harness.hold(&harness.key("before"), "ann").await).await;
    harness.lose_replies(true);
    assert_unknown(harness.store().release(held.release(None)).await);
    harness.lose_replies(false);
    assert_eq!(harness.inspect(held.key()).await.phase, Phase::Free);
    assert_eq!(expect_ok(harness.store().release(held.release(None)).await), Released::NotHeld);
}

pub async fn a_renewal_is_an_unknown_of_its_item(harness: &Harness) {
    let held = harness.hold(&harness.key("k"), "ann").await;
    harness.lose_replies(true);
    let mut results = expect_ok(harness.store().renew(&[held.renewal(None)]).await);
    harness.lose_replies(false);
    let Some(Err(error)) = results.pop() else { panic!("renewed without a reply") };
    assert!(matches!(error, Error::Unknown { .. }), "{error:?}");
    harness.assert_live(&held).await;
}
