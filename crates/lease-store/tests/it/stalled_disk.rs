//! The embedded engine while its disk stands still.

use std::sync::Arc;
use std::time::Duration;

use tenure_lease::{Acquired, Claim, Holder, Key, Leases, Outcome, Renewal, Renewed, Token, Ttl};
use tenure_store::{Local, Options, OsEntropy};

use crate::forgetful_storage::{ForgetfulStorage, Power, Stalled};

const LIMIT: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_is_refused_while_no_sign_of_life_reaches_the_disk() {
    let (folder, stalled) = (tempfile::tempdir().unwrap(), Stalled::default());
    let storage = ForgetfulStorage::new(folder.path(), &stalled, &Power::default());
    let store = Local::open_on(Arc::new(storage), Options::default(), None).await.unwrap();
    let (key, holder) = (Key::new("k").unwrap(), Holder::new("node-1").unwrap());
    let claim =
        Claim::new(key.clone(), holder, Token::random(&OsEntropy), Ttl::from_secs(60).unwrap()).remote();
    let Acquired::Granted(grant) = store.acquire(claim.clone()).await.unwrap() else { panic!("not granted") };
    let renewal = Renewal { key, token: claim.token, generation: grant.lease.generation, ttl: None };
    let is_renewed = async || match store.renew(std::slice::from_ref(&renewal)).await {
        Ok(answers) => {
            assert!(matches!(answers[..], [Ok(Renewed::Renewed { .. })]), "{answers:?}");
            true
        }
        Err(error) => {
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
            assert!(error.to_string().contains("heartbeat"), "{error}");
            false
        }
    };
    assert!(is_renewed().await);
    // A restart gives a lease the time since the last heartbeat and one second more: no renewal may rely on longer.
    let stall = stalled.begin();
    let refused = async || !is_renewed().await;
    tenure_testkit::wait::until_async("renewals are refused", LIMIT, refused).await.unwrap();
    drop(stall);
    tenure_testkit::wait::until_async("renewals go on", LIMIT, is_renewed).await.unwrap();
}
