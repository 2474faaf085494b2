//! The JSON body of an intent and its validation.

use std::collections::BTreeMap;

use serde::Deserialize;
use tenure_session::{CorrelationId, Error, Intent, Result, SessionId, StartIntent, Target, TargetKind};
use utoipa::ToSchema;

use crate::options::Profiles;

/// An intent. A start names a channel or a recording; a stop names a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schema(title = "Intent", example = json!({
    "type": "stream.start", "serviceRef": "1:0:1:445D:453:1:C00000:0:0:0:", "profileID": "high"
}))]
pub(crate) struct IntentBody {
    /// `stream.start` (the default) or `stream.stop`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// The session to stop.
    session_id: Option<String>,
    /// The channel to start.
    service_ref: Option<String>,
    /// The recording to start.
    recording_id: Option<String>,
    /// The start position within a recording, in milliseconds.
    start_ms: Option<u64>,
    /// The quality; the configured default if omitted.
    #[serde(rename = "profileID")]
    profile_id: Option<String>,
    /// Former name of `profileID`.
    profile: Option<String>,
    /// The client's name for this request; generated if omitted.
    correlation_id: Option<String>,
    /// Only `mode` is known, and only with the value `LIVE`, for a channel.
    params: Option<BTreeMap<String, String>>,
    /// Accepted and ignored: the server computes its own.
    #[serde(rename = "idempotencyKey")]
    _idempotency_key: Option<String>,
}

impl IntentBody {
    /// Validates the body.
    pub(crate) fn into_intent(self, profiles: &Profiles) -> Result<Intent> {
        let correlation = self.correlation_id.as_deref().map(CorrelationId::new).transpose()?;
        match self.kind.as_deref() {
            None | Some(StartIntent::TYPE) => self.start(profiles, correlation).map(Intent::Start),
            Some("stream.stop") => self.stop(correlation),
            Some(_) => Err(invalid("type", "must be stream.start or stream.stop")),
        }
    }

    fn start(self, profiles: &Profiles, correlation: Option<CorrelationId>) -> Result<StartIntent> {
        if self.session_id.is_some() {
            return Err(invalid("sessionId", "a start creates its session; omit this field"));
        }
        let target = Target::new(self.service_ref.as_deref(), self.recording_id.as_deref(), self.start_ms)?;
        self.check_params(target.kind())?;
        let word = match (&self.profile_id, &self.profile) {
            (Some(new), Some(old)) if new != old => {
                return Err(invalid("profile", "is the former name of profileID and has a different value"));
            }
            (Some(word), _) | (None, Some(word)) => Some(word.as_str()),
            (None, None) => None,
        };
        Ok(StartIntent { target, profile: profiles.resolve(word)?, correlation })
    }

    fn stop(self, correlation: Option<CorrelationId>) -> Result<Intent> {
        if self.service_ref.is_some() || self.recording_id.is_some() || self.start_ms.is_some() {
            return Err(invalid("type", "a stop takes only sessionId"));
        }
        let session = self.session_id.as_deref().ok_or_else(|| invalid("sessionId", "is missing"))?;
        Ok(Intent::Stop { session: SessionId::new(session)?, correlation })
    }

    fn check_params(&self, kind: TargetKind) -> Result<()> {
        for (name, value) in self.params.iter().flatten() {
            if name != "mode" {
                return Err(invalid("params", "only `mode` is supported"));
            }
            if !value.eq_ignore_ascii_case("live") || kind != TargetKind::Live {
                return Err(invalid("params", "`mode` must be LIVE and requires a channel"));
            }
        }
        Ok(())
    }
}

fn invalid(field: &'static str, why: &str) -> Error {
    Error::Invalid { field, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNEL: &str = "1:0:1:445D:453:1:C00000:0:0:0:";

    fn parse(json: serde_json::Value) -> std::result::Result<Intent, String> {
        let body: IntentBody = serde_json::from_value(json).map_err(|error| error.to_string())?;
        body.into_intent(&Profiles::default()).map_err(|error| error.to_string())
    }

    fn start(json: serde_json::Value) -> StartIntent {
        match parse(json) {
            Ok(Intent::Start(start)) => start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn omitted_fields_of_a_start_have_defaults() {
        let bare = start(serde_json::json!({"serviceRef": CHANNEL}));
        assert_eq!((bare.target.id(), bare.profile.as_str(), bare.correlation), (CHANNEL, "high", None));
        let whole = start(serde_json::json!({
            "type": "stream.start", "serviceRef": CHANNEL, "profileID": "low", "correlationId": "c-1",
            "params": {"mode": "live"}, "idempotencyKey": "mine",
        }));
        assert_eq!((whole.profile.as_str(), whole.correlation.unwrap().as_str()), ("low", "c-1"));
        let recording =
            start(serde_json::json!({"recordingId": "rec-1", "startMs": 60_000, "profile": "copy"}));
        assert_eq!((recording.target.bucket(), recording.profile.as_str()), (60, "copy"));
    }

    #[test]
    fn aliases_and_the_former_name_of_profile_id_give_the_same_intent() {
        let intents = ["profileID", "profile"]
            .map(|name| start(serde_json::json!({"serviceRef": CHANNEL, name: "AUTO"})));
        assert!(intents.iter().all(|intent| *intent == start(serde_json::json!({"serviceRef": CHANNEL}))));
    }

    #[test]
    fn a_stop_requires_a_session_id() {
        let stop = parse(serde_json::json!({"type": "stream.stop", "sessionId": "s-1"})).unwrap();
        assert_eq!(stop, Intent::Stop { session: SessionId::new("s-1").unwrap(), correlation: None });
    }

    #[test]
    fn an_invalid_body_is_rejected_naming_the_field() {
        for (json, word) in [
            (serde_json::json!({}), "serviceRef"),
            (serde_json::json!({"serviceRef": CHANNEL, "recordingId": "rec-1"}), "recordingId"),
            (serde_json::json!({"serviceRef": "a|b"}), "serviceRef"),
            (serde_json::json!({"serviceRef": "a\nb"}), "serviceRef"),
            (serde_json::json!({"serviceRef": CHANNEL, "startMs": 5}), "startMs"),
            (serde_json::json!({"recordingId": "rec-1", "startMs": -1}), "u64"),
            (serde_json::json!({"recordingId": "../rec"}), "recordingId"),
            (serde_json::json!({"serviceRef": CHANNEL, "profileID": "ultra"}), "profileID"),
            (serde_json::json!({"serviceRef": CHANNEL, "profileID": "low", "profile": "high"}), "profile"),
            (serde_json::json!({"serviceRef": CHANNEL, "correlationId": "a b"}), "correlationId"),
            (serde_json::json!({"serviceRef": CHANNEL, "params": {"mode": "RECORDING"}}), "params"),
            (serde_json::json!({"serviceRef": CHANNEL, "params": {"hwaccel": "off"}}), "params"),
            (serde_json::json!({"serviceRef": CHANNEL, "params": {"mode": 1}}), "string"),
            (serde_json::json!({"recordingId": "rec-1", "params": {"mode": "LIVE"}}), "params"),
            (serde_json::json!({"serviceRef": CHANNEL, "sessionId": "s-1"}), "sessionId"),
            (serde_json::json!({"serviceRef": CHANNEL, "service_ref": CHANNEL}), "unknown field"),
            (serde_json::json!({"type": "stream.pause", "serviceRef": CHANNEL}), "type"),
            (serde_json::json!({"type": "stream.stop"}), "sessionId"),
            (serde_json::json!({"type": "stream.stop", "sessionId": "a/b"}), "sessionId"),
            (serde_json::json!({"type": "stream.stop", "sessionId": "s-1", "serviceRef": CHANNEL}), "type"),
        ] {
            let error = parse(json.clone()).unwrap_err();
            assert!(error.contains(word), "{json}: {error}");
        }
    }
}
