//! An intent as it is written, and what it means.

use std::collections::BTreeMap;

use serde::Deserialize;
use session::{CorrelationId, Error, Intent, Kind, Result, SessionId, Start, Target};
use utoipa::ToSchema;

use crate::options::Profiles;

/// What somebody wants. A start names a channel or a recording, a stop names a session.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
#[schema(title = "Intent", example = json!({
    "type": "stream.start", "serviceRef": "1:0:1:445D:453:1:C00000:0:0:0:", "profileID": "high"
}))]
pub(crate) struct IntentBody {
    /// `stream.start` unless told, or `stream.stop`.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Which session to stop.
    session_id: Option<String>,
    /// Which channel to watch.
    service_ref: Option<String>,
    /// Which recording to watch.
    recording_id: Option<String>,
    /// From where to watch a recording, in milliseconds.
    start_ms: Option<u64>,
    /// In which quality; the default of the settings unless told.
    #[serde(rename = "profileID")]
    profile_id: Option<String>,
    /// The same by its former name.
    profile: Option<String>,
    /// What the client calls this request; made up unless told.
    correlation_id: Option<String>,
    /// `mode` may say `LIVE`, which is what a channel is anyway.
    params: Option<BTreeMap<String, String>>,
    /// Taken and not used: the server computes its own.
    #[serde(rename = "idempotencyKey")]
    _idempotency_key: Option<String>,
}

impl IntentBody {
    /// The wish, checked as a whole.
    pub(crate) fn read(self, profiles: &Profiles) -> Result<Intent> {
        let correlation = self.correlation_id.as_deref().map(CorrelationId::new).transpose()?;
        match self.kind.as_deref() {
            None | Some(Start::WORD) => self.start(profiles, correlation).map(Intent::Start),
            Some("stream.stop") => self.stop(correlation),
            Some(_) => Err(invalid("type", "must be stream.start or stream.stop")),
        }
    }

    fn start(self, profiles: &Profiles, correlation: Option<CorrelationId>) -> Result<Start> {
        if self.session_id.is_some() {
            return Err(invalid("sessionId", "a start gets its session; leave it out"));
        }
        let target = Target::new(self.service_ref.as_deref(), self.recording_id.as_deref(), self.start_ms)?;
        self.check_params(target.kind())?;
        let word = match (&self.profile_id, &self.profile) {
            (Some(new), Some(old)) if new != old => {
                return Err(invalid("profile", "is the former name of profileID and says something else"));
            }
            (Some(word), _) | (None, Some(word)) => Some(word.as_str()),
            (None, None) => None,
        };
        Ok(Start { target, profile: profiles.resolve(word)?, correlation })
    }

    fn stop(self, correlation: Option<CorrelationId>) -> Result<Intent> {
        if self.service_ref.is_some() || self.recording_id.is_some() || self.start_ms.is_some() {
            return Err(invalid("type", "a stop names its session and nothing to watch"));
        }
        let session = self.session_id.as_deref().ok_or_else(|| invalid("sessionId", "is missing"))?;
        Ok(Intent::Stop { session: SessionId::new(session)?, correlation })
    }

    fn check_params(&self, kind: Kind) -> Result<()> {
        for (name, value) in self.params.iter().flatten() {
            if name != "mode" {
                return Err(invalid("params", "only mode is known"));
            }
            if !value.eq_ignore_ascii_case("live") || kind != Kind::Live {
                return Err(invalid("params", "mode can only be LIVE, and only for a channel"));
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

    fn read(json: serde_json::Value) -> std::result::Result<Intent, String> {
        let body: IntentBody = serde_json::from_value(json).map_err(|error| error.to_string())?;
        body.read(&Profiles::default()).map_err(|error| error.to_string())
    }

    fn start(json: serde_json::Value) -> Start {
        match read(json) {
            Ok(Intent::Start(start)) => start,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_start_says_what_and_how_and_the_rest_has_a_default() {
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
    fn the_former_name_of_the_profile_and_its_aliases_are_the_same_wish() {
        let words = ["profileID", "profile"]
            .map(|name| start(serde_json::json!({"serviceRef": CHANNEL, name: "AUTO"})));
        assert!(words.iter().all(|wish| *wish == start(serde_json::json!({"serviceRef": CHANNEL}))));
    }

    #[test]
    fn a_stop_names_its_session() {
        let stop = read(serde_json::json!({"type": "stream.stop", "sessionId": "s-1"})).unwrap();
        assert_eq!(stop, Intent::Stop { session: SessionId::new("s-1").unwrap(), correlation: None });
    }

    #[test]
    fn what_cannot_be_meant_is_refused_by_name() {
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
            let error = read(json.clone()).unwrap_err();
            assert!(error.contains(word), "{json}: {error}");
        }
    }
}
