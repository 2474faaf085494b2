//! What is polled: the JSON in a record `session:{id}`, ours or anybody's.

use std::fmt;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::Url;
use serde_json::{Map, Value};

use crate::extract::Extract;
use crate::limits;

/// What stands in for a secret wherever a target is shown.
const HIDDEN: &str = "***";

/// How often a target is polled when its record does not say.
const INTERVAL: Duration = Duration::from_millis(4_000);

/// Headers that belong to the connection or to the poller.
const OWN_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
];

/// One thing to poll. Fields of its record that mean nothing here are kept.
#[derive(Clone, PartialEq)]
pub struct Target {
    /// Its id: the rest of its record's key.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What to GET.
    pub address: Url,
    /// Whether it is left alone for now.
    pub paused: bool,
    /// How often.
    pub interval: Duration,
    /// How long one poll may take, where the record says.
    pub timeout: Option<Duration>,
    /// Sent along; with the bearer, all of them secret.
    pub(crate) headers: HeaderMap,
    pub(crate) extract: Extract,
    /// Where results are posted.
    pub(crate) webhook: Option<Url>,
    record: Map<String, Value>,
}

/// Why a record is no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct TargetError {
    /// Which part.
    pub field: &'static str,
    /// What is wrong.
    pub why: String,
}

fn wrong(field: &'static str, why: impl Into<String>) -> TargetError {
    TargetError { field, why: why.into() }
}

impl Target {
    /// Reads a record's value.
    pub fn parse(id: &str, value: &[u8]) -> Result<Self, TargetError> {
        if value.len() > limits::RECORD {
            return Err(wrong("record", format!("at most {} bytes are allowed", limits::RECORD)));
        }
        match serde_json::from_slice(value) {
            Ok(Value::Object(record)) => Self::new(id, record),
            Ok(_) => Err(wrong("record", "is no JSON object")),
            Err(error) => Err(wrong("record", format!("is no JSON: {error}"))),
        }
    }

    /// Reads the fields of a record.
    pub fn new(id: &str, mut record: Map<String, Value>) -> Result<Self, TargetError> {
        check_id(id)?;
        record.insert("id".into(), id.into());
        let text = |field: &'static str| match record.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(wrong(field, "must be a text")),
        };
        let address = url("address", text("address")?.ok_or_else(|| wrong("address", "is missing"))?)?;
        let paused = match record.get("isPaused") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(paused)) => *paused,
            Some(_) => return Err(wrong("isPaused", "must be true or false")),
        };
        Ok(Self {
            name: text("name")?.unwrap_or(id).to_owned(),
            paused,
            interval: time(&record, "intervalMs")?.unwrap_or(INTERVAL),
            timeout: time(&record, "timeoutMs")?,
            headers: headers(&record, text("bearer")?)?,
            extract: text("extract")?
                .unwrap_or_default()
                .parse()
                .map_err(|error| wrong("extract", format!("{error}")))?,
            webhook: text("webhook")?.map(|text| url("webhook", text)).transpose()?,
            id: id.to_owned(),
            address,
            record,
        })
    }

    /// The record's value, secrets included: for the store and nobody else.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.record).unwrap_or_default()
    }

    /// The record as anybody may see it.
    pub fn shown(&self) -> Map<String, Value> {
        let mut shown = self.record.clone();
        for field in ["bearer", "webhook"] {
            if let Some(secret) = shown.get_mut(field).filter(|value| value.is_string()) {
                *secret = HIDDEN.into();
            }
        }
        if let Some(Value::Object(headers)) = shown.get_mut("headers") {
            headers.values_mut().for_each(|value| *value = HIDDEN.into());
        }
        if !self.address.username().is_empty() || self.address.password().is_some() {
            shown.insert("address".into(), bare(&self.address).into());
        }
        shown.entry("name").or_insert_with(|| self.name.clone().into());
        shown.entry("isPaused").or_insert(self.paused.into());
        shown.entry("intervalMs").or_insert((self.interval.as_millis() as u64).into());
        shown
    }

    /// The same target with some fields changed: null removes one, and a hidden secret stays what it was.
    pub fn patched(&self, patch: Map<String, Value>) -> Result<Self, TargetError> {
        let mut record = self.record.clone();
        for (field, value) in patch {
            match value {
                Value::Null => drop(record.remove(&field)),
                Value::String(text) if text == HIDDEN => {}
                Value::Object(new) if field == "headers" => {
                    let old = record.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
                    let keep = |(name, value): (String, Value)| match value.as_str() {
                        Some(HIDDEN) => old.get(&name).cloned().map(|value| (name, value)),
                        _ => Some((name, value)),
                    };
                    record.insert(field, Value::Object(new.into_iter().filter_map(keep).collect()));
                }
                value => drop(record.insert(field, value)),
            }
        }
        Self::new(&self.id, record)
    }
}

/// An id is the rest of a key: printable, and of a length that leaves room for every prefix.
fn check_id(id: &str) -> Result<(), TargetError> {
    if id.is_empty() || id.len() > limits::ID || !id.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(wrong(
            "id",
            format!("must be 1 to {} bytes of printable ASCII without spaces", limits::ID),
        ));
    }
    Ok(())
}

fn url(field: &'static str, text: &str) -> Result<Url, TargetError> {
    let url = Url::parse(text).map_err(|error| wrong(field, format!("is no address: {error}")))?;
    match matches!(url.scheme(), "http" | "https") && url.has_host() {
        true => Ok(url),
        false => Err(wrong(field, "must be an http or https address")),
    }
}

fn time(record: &Map<String, Value>, field: &'static str) -> Result<Option<Duration>, TargetError> {
    let (least, most) = (limits::INTERVAL_MIN, limits::INTERVAL_MAX);
    match record.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let time = value.as_u64().map(Duration::from_millis).filter(|time| (least..=most).contains(time));
            time.map(Some).ok_or_else(|| {
                wrong(
                    field,
                    format!("must be a whole number of {} to {}", least.as_millis(), most.as_millis()),
                )
            })
        }
    }
}

fn headers(record: &Map<String, Value>, bearer: Option<&str>) -> Result<HeaderMap, TargetError> {
    let mut headers = HeaderMap::new();
    let given = match record.get("headers") {
        None | Some(Value::Null) => None,
        Some(Value::Object(given)) => Some(given),
        Some(_) => return Err(wrong("headers", "must be an object of texts")),
    };
    if given.is_some_and(|given| given.len() > limits::HEADERS) {
        return Err(wrong("headers", format!("at most {} are allowed", limits::HEADERS)));
    }
    for (name, value) in given.into_iter().flatten() {
        let name: HeaderName =
            name.parse().map_err(|_| wrong("headers", format!("{name:?} is no name of a header")))?;
        if OWN_HEADERS.contains(&name) {
            return Err(wrong("headers", format!("{name} is set by the poller")));
        }
        let value = value.as_str().ok_or_else(|| wrong("headers", format!("{name} must be a text")))?;
        headers.insert(
            name.clone(),
            secret(value).map_err(|()| wrong("headers", format!("{name} is no header")))?,
        );
    }
    if let Some(bearer) = bearer {
        let value = secret(&format!("Bearer {bearer}")).map_err(|()| wrong("bearer", "cannot be sent"))?;
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

fn secret(text: &str) -> Result<HeaderValue, ()> {
    let mut value = HeaderValue::from_str(text).map_err(|_| ())?;
    value.set_sensitive(true);
    Ok(value)
}

/// An address without what it may carry of a password.
pub(crate) fn bare(url: &Url) -> String {
    let mut bare = url.clone();
    if !bare.username().is_empty() || bare.password().is_some() {
        // Neither fails for a URL with a host, and ours have one.
        let _ = bare.set_username(HIDDEN);
        let _ = bare.set_password(None);
    }
    bare.into()
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("id", &self.id)
            .field("address", &bare(&self.address))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn target(value: Value) -> Result<Target, TargetError> {
        Target::parse("t1", value.to_string().as_bytes())
    }

    #[test]
    fn a_record_needs_an_address_and_nothing_else() {
        let target = target(json!({"address": "http://h:1/x", "isOnline": true})).unwrap();
        assert_eq!((target.name.as_str(), target.paused, target.interval), ("t1", false, INTERVAL));
        assert_eq!(target.address.as_str(), "http://h:1/x");
        let kept: Value = serde_json::from_slice(&target.to_bytes()).unwrap();
        assert_eq!(kept, json!({"id": "t1", "address": "http://h:1/x", "isOnline": true}));
    }

    #[test]
    fn what_cannot_be_polled_is_refused_by_the_name_of_its_field() {
        let table = [
            (json!([]), "record"),
            (json!({}), "address"),
            (json!({"address": 1}), "address"),
            (json!({"address": "h:1"}), "address"),
            (json!({"address": "file:///etc/passwd"}), "address"),
            (json!({"address": "http://h", "isPaused": "no"}), "isPaused"),
            (json!({"address": "http://h", "intervalMs": 9}), "intervalMs"),
            (json!({"address": "http://h", "intervalMs": -1}), "intervalMs"),
            (json!({"address": "http://h", "timeoutMs": "x"}), "timeoutMs"),
            (json!({"address": "http://h", "headers": {"a b": "c"}}), "headers"),
            (json!({"address": "http://h", "headers": {"Host": "c"}}), "headers"),
            (json!({"address": "http://h", "headers": {"a": "c\n"}}), "headers"),
            (json!({"address": "http://h", "bearer": "a\nb"}), "bearer"),
            (json!({"address": "http://h", "extract": "x"}), "extract"),
            (json!({"address": "http://h", "webhook": "x"}), "webhook"),
        ];
        for (value, field) in table {
            assert_eq!(target(value.clone()).unwrap_err().field, field, "{value}");
        }
        assert_eq!(Target::parse("t1", b"{").unwrap_err().field, "record");
        assert_eq!(Target::parse("t1", &[b' '; 16_385]).unwrap_err().field, "record");
        for id in ["", "a b", "ä", &"x".repeat(129)] {
            assert_eq!(Target::parse(id, br#"{"address":"http://h"}"#).unwrap_err().field, "id", "{id}");
        }
    }

    #[test]
    fn secrets_are_shown_nowhere() {
        let target = target(json!({
            "address": "http://me:hush-1@h/", "bearer": "hush-2", "headers": {"X-Key": "hush-3"},
            "webhook": "http://h/hush-4",
        }))
        .unwrap();
        let shown = Value::Object(target.shown()).to_string() + &format!("{target:?} {:?}", target.headers);
        assert!(!shown.contains("hush"), "{shown}");
        assert_eq!(target.headers[header::AUTHORIZATION], "Bearer hush-2");
        assert_eq!(target.headers["x-key"], "hush-3");
    }

    #[test]
    fn a_patch_changes_what_it_names_and_keeps_hidden_secrets() {
        let before = target(json!({
            "address": "http://h", "bearer": "b", "headers": {"a": "1", "c": "2"}, "more": 7,
        }))
        .unwrap();
        let patch =
            json!({"isPaused": true, "bearer": "***", "headers": {"a": "***", "d": "3"}, "more": null});
        let Value::Object(patch) = patch else { unreachable!() };
        let after = before.patched(patch).unwrap();
        let kept: Value = serde_json::from_slice(&after.to_bytes()).unwrap();
        let expected = json!({
            "id": "t1", "address": "http://h", "bearer": "b", "headers": {"a": "1", "d": "3"}, "isPaused": true,
        });
        assert_eq!(kept, expected);
        assert!(after.paused);
    }
}
