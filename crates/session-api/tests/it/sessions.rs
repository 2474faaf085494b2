//! Session views and listings.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tenure_session::{Detail, Reason, Session, SessionEvent};
use tenure_session_api::Channel;

use crate::api::{ADMIN, CHANNEL, READ, TestApi, TestApiBuilder, send};

#[tokio::test]
async fn the_session_view_has_all_fields() {
    let api = TestApi::new().await;
    let id = api.start(json!({"serviceRef": CHANNEL, "correlationId": "c-1"})).await;
    let seen = api.get(&format!("/sessions/{id}")).await;
    assert_eq!((seen.status, &seen.headers["cache-control"]), (StatusCode::OK, &"no-store".parse().unwrap()));
    let created = api.log.session(&id).created.0;
    let expiry = seen.body["leaseExpiresAt"].as_str().unwrap();
    assert_eq!(
        seen.body,
        json!({
            "sessionId": id, "requestId": seen.headers["x-request-id"].to_str().unwrap(), "serviceRef": CHANNEL,
            "profile": "high", "state": "NEW", "reason": "R_NONE", "correlationId": "c-1", "createdAtMs": created,
            "updatedAtMs": created, "heartbeatIntervalSeconds": 30, "leaseExpiresAt": expiry, "mode": "LIVE",
        })
    );
    let ready = [SessionEvent::Pick, SessionEvent::Prime, SessionEvent::Publish];
    api.log.apply_events(&id, &ready);
    api.log.put(Session { slot: Some(1), ..api.log.session(&id) });
    let seen = api.get(&format!("/sessions/{id}")).await.body;
    assert_eq!((&seen["state"], &seen["tunerSlot"]), (&json!("READY"), &json!(1)));
    assert_eq!(seen["playbackUrl"], format!("/api/v3/sessions/{id}/hls/index.m3u8"));
    let recording = api.start(json!({"recordingId": "rec-1", "startMs": 1_500})).await;
    let seen = api.get(&format!("/sessions/{recording}")).await.body;
    assert_eq!(
        (&seen["recordingId"], &seen["startMs"], &seen["mode"]),
        (&json!("rec-1"), &json!(1_500), &json!("RECORDING"))
    );
    assert_eq!((&seen["serviceRef"], &seen["playbackUrl"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn an_ended_session_is_a_410_with_its_reason_and_an_unknown_one_a_404() {
    let api = TestApi::new().await;
    let id = api.start_channel().await;
    let failed = api.log.session(&id).apply(SessionEvent::Fail, tenure_session::UnixMs(1)).unwrap().unwrap();
    api.log.put(failed.with_reason(
        Reason::LeaseBusy,
        Some(Detail::RejectedNoTuner),
        Some("no tuner is free".into()),
    ));
    for gone in [
        api.get(&format!("/sessions/{id}")).await,
        api.heartbeat(&id).await,
        api.get(&format!("/sessions/{id}/hls/index.m3u8")).await,
    ] {
        assert_eq!(gone.code(), (410, "session_gone"));
        let body = &gone.body;
        assert_eq!((&body["session"], &body["state"]), (&json!(id), &json!("FAILED")));
        assert_eq!(
            (&body["reason"], &body["reason_detail"]),
            (&json!("R_LEASE_BUSY"), &json!("REJECTED_NO_TUNER"))
        );
    }
    let other = api.start_channel().await;
    api.log.apply_events(&other, &[SessionEvent::RequestStop, SessionEvent::End]);
    let gone = api.get(&format!("/sessions/{other}")).await;
    assert_eq!((gone.code(), &gone.body["reason_detail"]), ((410, "session_gone"), &Value::Null));
    assert_eq!(api.get("/sessions/no-such-session").await.code(), (404, "SESSION.NOT_FOUND"));
    assert_eq!(api.heartbeat("no-such-session").await.code(), (404, "SESSION.NOT_FOUND"));
}

#[tokio::test]
async fn admins_list_all_sessions_in_pages_newest_first() {
    let api = TestApi::new().await;
    let mut ids = Vec::new();
    for n in 0..5 {
        ids.push(api.start(json!({"recordingId": format!("rec-{n}")})).await);
    }
    ids.sort();
    ids.reverse();
    api.log.apply_events(&ids[0], &[SessionEvent::Fail]);
    let list = async |query: &str| send(api.request(ADMIN, Method::GET, &format!("/sessions{query}"))).await;
    let all = list("").await.body;
    assert_eq!(all["pagination"], json!({"offset": 0, "limit": 100, "total": 5, "count": 5}));
    let shown = |page: &Value| -> Vec<String> {
        let sessions = page["sessions"].as_array().unwrap();
        sessions.iter().map(|session| session["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    let mut sorted = shown(&all);
    sorted.sort();
    sorted.reverse();
    assert_eq!(sorted, ids);
    assert!(all["sessions"].as_array().unwrap().iter().any(|session| session["state"] == "FAILED"));
    let live = list("?live=true").await.body;
    assert_eq!(live["pagination"], json!({"offset": 0, "limit": 100, "total": 4, "count": 4}));
    assert!(!shown(&live).contains(&ids[0]), "ended sessions are left out");
    let page = list("?offset=1&limit=2").await.body;
    assert_eq!(page["pagination"], json!({"offset": 1, "limit": 2, "total": 5, "count": 2}));
    assert_eq!(shown(&page), shown(&all)[1..3]);
    let beyond = list("?offset=9&limit=1000").await.body;
    assert_eq!(
        beyond,
        json!({"sessions": [], "pagination": {"offset": 9, "limit": 1000, "total": 5, "count": 0}})
    );
}

#[tokio::test]
async fn channels_profiles_and_tuners_are_listed() {
    let channel = |name: &str, logo: Option<&str>| Channel {
        service_ref: tenure_session::ServiceRef::new(CHANNEL).unwrap(),
        name: name.into(),
        logo: logo.map(Into::into),
    };
    let channels = vec![channel("News", None), channel("Sport", Some("/logo.png"))];
    let api = TestApiBuilder::new().with(|options| options.channels = channels).build().await;
    let told = send(api.request(READ, Method::GET, "/channels")).await.body;
    assert_eq!(
        told,
        json!({
            "channels": [
                {"serviceRef": CHANNEL, "name": "News"}, {"serviceRef": CHANNEL, "name": "Sport", "logo": "/logo.png"},
            ],
            "profiles": ["high", "low", "copy"], "defaultProfile": "high", "tuners": 2,
        })
    );
}
