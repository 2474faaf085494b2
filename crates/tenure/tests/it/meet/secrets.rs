//! Logs contain no secrets.

use tenure_meet_wire::transport::Closed;
use tenure_testkit::{RedisServer, Reply};

use crate::meet::cluster::TestCluster;
use crate::meet::installation::{MC_SECRET, MH_SECRET, MeetingAccess, TOKEN};

/// The values of `"nonce":"…"` in rows.
fn nonces(rows: &str) -> Vec<String> {
    let values = rows.split("nonce\":\"").skip(1);
    values.filter_map(|rest| rest.split('"').next()).map(str::to_owned).collect()
}

fn keys(redis: &RedisServer, pattern: &str) -> Vec<String> {
    let Reply::Array(Some(keys)) = redis.command(&["KEYS", pattern]).unwrap() else { panic!("no list") };
    keys.iter().map(|key| key.text().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_holds_a_token_a_secret_or_a_nonce_whatever_its_level() {
    let cluster = TestCluster::start(&["mc-one"], "trace", &[]).await;
    let redis = cluster.installation.redis.as_ref().unwrap();
    let made = cluster.gc.create("whisper").await;
    let (id, code) = (made["meeting_id"].as_str().unwrap(), made["meeting_code"].as_str().unwrap());
    let guest = cluster.gc.guest(code, "Eve").await;
    let (host, place) = (cluster.gc.place(code, None).await, cluster.gc.place(code, Some(&guest)).await);
    let (ada, of_ada) = host.join("Ada").await;
    let mut request = host.request("Ada");
    request.correlation_id.clone_from(&of_ada.correlation_id);
    request.binding_token.clone_from(&of_ada.binding_token);
    // A resume, and the same proof presented by another user.
    let (mut again, back) = host.join_with(request.clone()).await;
    assert!(back.resumed);
    request.join_token.clone_from(&place.token);
    let (mut eve, refused) = place.join_with(request).await;
    assert!(!refused.resumed);
    eve.chat("a word between us").await;
    again.hears("a word between us").await;
    let forged = MeetingAccess { token: format!("{}x", place.token), ..place.clone() };
    forged.ask_to_join("Eve").await.next().await;
    assert_eq!(ada.session.closed().await, Closed::Code(4001));

    let mut secrets: Vec<String> = [
        TOKEN,
        MC_SECRET,
        MH_SECRET,
        "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=",
        "01234567890123456789012345678901",
        "0123456789abcdef0123456789abcdef",
        "a word between us",
        // How every token begins.
        "eyJ",
    ]
    .map(str::to_owned)
    .into();
    for token in [&host.token, &place.token, &guest] {
        secrets.push(token.rsplit('.').next().unwrap().to_owned());
    }
    secrets.extend([of_ada.binding_token, back.binding_token, refused.binding_token]);
    for seat in keys(redis, &format!("meeting:{id}:seat:*")) {
        let row = redis.command(&["GET", &seat]).unwrap();
        secrets.extend(nonces(row.text().unwrap()));
    }
    for spent in keys(redis, &format!("meeting:{id}:nonce:*")) {
        secrets.push(spent.rsplit(':').next().unwrap().to_owned());
    }
    assert!(secrets.len() >= 17, "two seats' nonces, one that was replaced, one that was spent");
    for part in ["gc", "mc-one", "mh-one"] {
        let log = cluster.installation.log(part);
        assert!(log.contains("TRACE"), "{part} says everything");
        for secret in &secrets {
            let found = log.lines().find(|line| line.contains(secret.as_str()));
            assert_eq!(found, None, "{part}");
        }
    }
}
