//! A poll target: the JSON of a record `session:{id}`, written by Tenure or by another program.

use std::fmt;
use std::time::Duration;

use ::http::{HeaderMap, HeaderName, HeaderValue, header};
use reqwest::Url;
use serde_json::{Map, Value};

use tenure_lease::breaks::{Break, broken};

use crate::extract::Extract;
use crate::limits;

/// Replaces every secret in output.
const REDACTED: &str = "***";

/// Default poll interval.
const DEFAULT_INTERVAL: Duration = Duration::from_millis(4_000);

/// Headers that only the HTTP client or the poller may set.
const RESERVED_HEADERS: [HeaderName; 8] = [
    header::HOST,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::CONNECTION,
    header::UPGRADE,
    header::TE,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
];

/// A target to poll. Unknown fields of its record are preserved.
#[derive(Clone, PartialEq)]
pub struct Target {
    /// Its id: the suffix of its record's key.
    pub id: String,
    /// Its display name.
    pub name: String,
    /// The URL to GET.
    pub address: Url,
    /// Whether polling is paused.
    pub paused: bool,
    /// The poll interval.
    pub interval: Duration,
    /// The timeout of one poll, if the record sets one.
    pub timeout: Option<Duration>,
    /// Request headers, including the bearer token. All values are secret.
    pub(crate) headers: HeaderMap,
    pub(crate) extract: Extract,
    /// URL to which results are posted.
    pub(crate) webhook: Option<Url>,
    record: Map<String, Value>,
}

/// Why a record is not a valid target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {reason}")]
pub struct TargetError {
    /// The invalid field.
    pub field: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

fn invalid_field(field: &'static str, reason: impl Into<String>) -> TargetError {
    TargetError { field, reason: reason.into() }
}

impl Target {
    /// Parses the value of a record.
    pub fn parse(id: &str, value: &[u8]) -> Result<Self, TargetError> {
        if value.len() > limits::RECORD {
            return Err(invalid_field("record", format!("at most {} bytes are allowed", limits::RECORD)));
        }
        match serde_json::from_slice(value) {
            Ok(Value::Object(record)) => Self::new(id, record),
            Ok(_) => Err(invalid_field("record", "must be a JSON object")),
            Err(error) => Err(invalid_field("record", format!("invalid JSON: {error}"))),
        }
    }

    /// Validates the fields of a record.
    pub fn new(id: &str, mut record: Map<String, Value>) -> Result<Self, TargetError> {
        check_id(id)?;
        record.insert("id".into(), id.into());
        let text = |field: &'static str| match record.get(field) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(invalid_field(field, "must be a string")),
        };
        let address =
            url("address", text("address")?.ok_or_else(|| invalid_field("address", "is missing"))?)?;
        let paused = match record.get("isPaused") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(paused)) => *paused,
            Some(_) => return Err(invalid_field("isPaused", "must be true or false")),
        };
        Ok(Self {
            name: text("name")?.unwrap_or(id).to_owned(),
            paused,
            interval: time(&record, "intervalMs")?.unwrap_or(DEFAULT_INTERVAL),
            timeout: time(&record, "timeoutMs")?,
            headers: headers(&record, text("bearer")?)?,
            extract: text("extract")?
                .unwrap_or_default()
                .parse()
                .map_err(|error| invalid_field("extract", format!("{error}")))?,
            webhook: text("webhook")?.map(|text| url("webhook", text)).transpose()?,
            id: id.to_owned(),
            address,
            record,
        })
    }

    /// The value of the record, including secrets. Only for the store.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(&self.record).unwrap_or_default()
    }

    /// The record without secrets.
    pub fn redacted_record(&self) -> Map<String, Value> {
        let mut record = self.record.clone();
        if broken(Break::ShowsTargetSecrets) {
            return record;
        }
        for field in ["bearer", "webhook"] {
            if let Some(secret) = record.get_mut(field).filter(|value| value.is_string()) {
                *secret = REDACTED.into();
            }
        }
        if let Some(Value::Object(headers)) = record.get_mut("headers") {
            headers.values_mut().for_each(|value| *value = REDACTED.into());
        }
        if !self.address.username().is_empty() || self.address.password().is_some() {
            record.insert("address".into(), redact_url(&self.address).into());
        }
        record.entry("name").or_insert_with(|| self.name.clone().into());
        record.entry("isPaused").or_insert(self.paused.into());
        record.entry("intervalMs").or_insert((self.interval.as_millis() as u64).into());
        record
    }

    /// The target with some fields changed. Null removes a field; a redacted secret is unchanged. If the address moves to
    /// another origin, secrets that the patch does not contain are dropped: they were given for the old origin.
    pub fn patched(&self, patch: Map<String, Value>) -> Result<Self, TargetError> {
        let mut record = self.record.clone();
        if self.changes_origin(&patch) {
            record.remove("bearer");
            record.remove("headers");
        }
        for (field, value) in patch {
            match value {
                Value::Null => drop(record.remove(&field)),
                Value::String(text) if text == REDACTED => {}
                Value::Object(new) if field == "headers" => {
                    let old = record.get("headers").and_then(Value::as_object).cloned().unwrap_or_default();
                    let keep = |(name, value): (String, Value)| match value.as_str() {
                        Some(REDACTED) => old.get(&name).cloned().map(|value| (name, value)),
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

impl Target {
    fn changes_origin(&self, patch: &Map<String, Value>) -> bool {
        let address = patch.get("address").and_then(Value::as_str).filter(|text| *text != REDACTED);
        address.is_some_and(|text| !Url::parse(text).is_ok_and(|url| url.origin() == self.address.origin()))
    }
}

/// An id is the suffix of a key: printable, and short enough for every prefix.
fn check_id(id: &str) -> Result<(), TargetError> {
    if id.is_empty() || id.len() > limits::ID || !id.bytes().all(|b| b.is_ascii_graphic()) {
        return Err(invalid_field(
            "id",
            format!("must be 1 to {} bytes of printable ASCII without spaces", limits::ID),
        ));
    }
    Ok(())
}

fn url(field: &'static str, text: &str) -> Result<Url, TargetError> {
    let url = Url::parse(text).map_err(|error| invalid_field(field, format!("invalid URL: {error}")))?;
    match matches!(url.scheme(), "http" | "https") && url.has_host() {
        true => Ok(url),
        false => Err(invalid_field(field, "must be an http or https URL")),
    }
}

fn time(record: &Map<String, Value>, field: &'static str) -> Result<Option<Duration>, TargetError> {
    let (least, most) = (limits::INTERVAL_MIN, limits::INTERVAL_MAX);
    match record.get(field) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let time = value.as_u64().map(Duration::from_millis).filter(|time| (least..=most).contains(time));
            time.map(Some).ok_or_else(|| {
                invalid_field(
                    field,
                    format!("must be an integer from {} to {}", least.as_millis(), most.as_millis()),
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
        Some(_) => return Err(invalid_field("headers", "must be an object of strings")),
    };
    if given.is_some_and(|given| given.len() > limits::HEADERS) {
        return Err(invalid_field("headers", format!("at most {} headers are allowed", limits::HEADERS)));
    }
    for (name, value) in given.into_iter().flatten() {
        let name: HeaderName =
            name.parse().map_err(|_| invalid_field("headers", format!("invalid header name {name:?}")))?;
        if RESERVED_HEADERS.contains(&name) {
            return Err(invalid_field("headers", format!("{name} is reserved for the poller")));
        }
        let value =
            value.as_str().ok_or_else(|| invalid_field("headers", format!("{name} must be a string")))?;
        headers.insert(
            name.clone(),
            secret(value).map_err(|()| invalid_field("headers", format!("invalid value of {name}")))?,
        );
    }
    if let Some(bearer) = bearer {
        let value = secret(&format!("Bearer {bearer}"))
            .map_err(|()| invalid_field("bearer", "contains characters that are not allowed in a header"))?;
        headers.insert(header::AUTHORIZATION, value);
    }
    Ok(headers)
}

fn secret(text: &str) -> Result<HeaderValue, ()> {
    let mut value = HeaderValue::from_str(text).map_err(|_| ())?;
    value.set_sensitive(true);
    Ok(value)
}

/// A URL without its credentials.
pub(crate) fn redact_url(url: &Url) -> String {
    let mut redacted = url.clone();
    if !redacted.username().is_empty() || redacted.password().is_some() {
        // Neither call fails for a URL with a host, which every target has.
        let _ = redacted.set_username(REDACTED);
        let _ = redacted.set_password(None);
    }
    redacted.into()
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target")
            .field("id", &self.id)
            .field("address", &redact_url(&self.address))
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
    fn only_the_address_is_required() {
        let target = target(json!({"address": "http://h:1/x", "isOnline": true})).unwrap();
        assert_eq!((target.name.as_str(), target.paused, target.interval), ("t1", false, DEFAULT_INTERVAL));
        assert_eq!(target.address.as_str(), "http://h:1/x");
        let kept: Value = serde_json::from_slice(&target.to_bytes()).unwrap();
        assert_eq!(kept, json!({"id": "t1", "address": "http://h:1/x", "isOnline": true}));
    }

    #[test]
    fn an_invalid_record_is_refused_with_the_name_of_the_field() {
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
    fn secrets_are_never_displayed() {
        let target = target(json!({
            "address": "http://me:hush-1@h/", "bearer": "hush-2", "headers": {"X-Key": "hush-3"},
            "webhook": "http://h/hush-4",
        }))
        .unwrap();
        let output =
            Value::Object(target.redacted_record()).to_string() + &format!("{target:?} {:?}", target.headers);
        assert!(!output.contains("hush"), "{output}");
        assert_eq!(target.headers[header::AUTHORIZATION], "Bearer hush-2");
        assert_eq!(target.headers["x-key"], "hush-3");
    }

    #[test]
    fn a_patch_changes_the_given_fields_and_keeps_redacted_secrets() {
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

    #[test]
    fn secrets_do_not_follow_the_address_to_another_origin() {
        let before = target(json!({
            "address": "https://h/a", "bearer": "hush", "headers": {"x-key": "hush"},
        }))
        .unwrap();
        let patched = |patch: Value| {
            let Value::Object(patch) = patch else { unreachable!() };
            before.patched(patch).unwrap()
        };
        assert_eq!(patched(json!({"address": "https://h/b"})).headers.len(), 2, "the same origin");
        for patch in [
            json!({"address": "https://evil/a"}),
            json!({"address": "http://h/a"}),
            json!({"address": "https://h:8443/a", "bearer": "***", "headers": {"x-key": "***"}}),
        ] {
            let after = patched(patch.clone());
            let record = String::from_utf8(after.to_bytes()).unwrap();
            assert!(after.headers.is_empty() && !record.contains("hush"), "{patch}: {record}");
        }
        let renewed = patched(json!({"address": "https://other/", "bearer": "new"}));
        assert_eq!(renewed.headers[header::AUTHORIZATION], "Bearer new");
    }
}
