//! `PUT /v1/records` and `GET /v1/records`

use std::sync::Arc;

use axum::extract::State;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tenure_lease::{Committed, Fence, Generation, Key, Mode, Op, Revision, Token};
use tenure_service::{Code, Json, Problem, ProblemBody, Query};
use utoipa::ToSchema;

use super::body::{KeyQuery, format_generation};
use super::scope::{Reader, Writer};
use crate::error::ApiError;
use crate::reserved;
use crate::service::LeaseService;

/// A value, and the lease under which it is written.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Write", example = json!({
    "value": {"channel": 7},
    "fence": {"key": "tuner/3", "token": "q83vEjRWeJASNFZ4kBI0Vg", "generation": "1782579200000042"}
}))]
pub(super) struct WriteBody {
    /// Any JSON, stored verbatim; at most 256 KiB.
    #[schema(value_type = serde_json::Value)]
    value: Box<RawValue>,
    fence: FenceBody,
}

/// The lease that allows the write: it must be live.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Fence")]
pub(super) struct FenceBody {
    #[schema(min_length = 1, max_length = 256, pattern = "^[!-~]+$")]
    key: String,
    #[schema(pattern = "^[1-9][0-9]{0,15}$")]
    generation: String,
    #[schema(pattern = "^[A-Za-z0-9_-]{22,128}$")]
    token: String,
}

/// A record.
#[derive(Serialize, ToSchema)]
#[schema(title = "Record", example = json!({
    "key": "tuner/3/state", "value": {"channel": 7}, "revision": "1782579200000050"
}))]
pub(super) struct RecordBody {
    key: String,
    /// The value. Bytes of other writers that are not JSON are returned as a string, or as `{"base64": …}` if they are
    /// not text.
    #[schema(value_type = serde_json::Value)]
    value: Box<RawValue>,
    revision: String,
}

impl RecordBody {
    fn new(key: &Key, value: Box<RawValue>, revision: Revision) -> Json<Self> {
        Json(Self { key: key.as_str().into(), value, revision: revision.get().to_string() })
    }
}

/// Write a record while the lease of the fence is live with this token and generation. On a store that other programs
/// share, the records of this API are kept apart from their keys.
#[utoipa::path(
    put, path = "/v1/records", tag = "records", operation_id = "writeRecord",
    params(KeyQuery),
    request_body = WriteBody,
    responses(
        (status = 200, body = RecordBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn write(
    State(service): State<Arc<LeaseService>>,
    _: Writer,
    Query(query): Query<KeyQuery>,
    Json(body): Json<WriteBody>,
) -> Result<Json<RecordBody>, ApiError> {
    let key = Key::new(query.key)?;
    reserved::check(&key)?;
    let fence = Fence {
        key: Key::new(body.fence.key)?,
        token: Token::parse(&body.fence.token)?,
        generation: Generation::parse(&body.fence.generation)?,
        mode: Mode::Strict,
    };
    reserved::check(&fence.key)?;
    let stored = service.keyspace(false).stored(&key)?;
    let put = Op::Put { key: stored, value: body.value.get().as_bytes().into(), ttl: None };
    match service.store.write_fenced(&fence, &[put]).await? {
        Committed::Written { revision } => Ok(RecordBody::new(&key, body.value, revision)),
        Committed::FencedOut { current } => {
            let detail = match current {
                Some(current) => {
                    format!("{} is held under generation {current}; nothing was written", fence.key)
                }
                None => format!("{} is not held; nothing was written", fence.key),
            };
            Err(Problem::new(Code::FENCED_OUT, detail)
                .with("generation", current.map(format_generation))
                .into())
        }
        Committed::Conflict { .. } => {
            Err(Problem::new(Code::CONFLICT, format!("{key} has changed; nothing was written")).into())
        }
    }
}

/// Read a record.
#[utoipa::path(
    get, path = "/v1/records", tag = "records", operation_id = "readRecord",
    params(KeyQuery),
    responses(
        (status = 200, body = RecordBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 404, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn read(
    State(service): State<Arc<LeaseService>>,
    _: Reader,
    Query(query): Query<KeyQuery>,
) -> Result<Json<RecordBody>, ApiError> {
    let key = Key::new(query.key)?;
    let found = match reserved::is_reserved(&key) {
        true => None,
        false => service.store.get(&service.keyspace(false).stored(&key)?).await?,
    };
    let Some(record) = found else {
        return Err(Problem::new(Code::NOT_FOUND, format!("there is no record {key}")).into());
    };
    let value = to_json(&record.value)
        .map_err(|_| Problem::new(Code::INTERNAL, format!("the record {key} cannot be returned as JSON")))?;
    Ok(RecordBody::new(&key, value, record.revision))
}

/// Bytes as JSON: as they are, as a string, or encoded.
fn to_json(value: &[u8]) -> Result<Box<RawValue>, serde_json::Error> {
    if let Ok(json) = serde_json::from_slice(value) {
        return Ok(json);
    }
    match std::str::from_utf8(value) {
        Ok(text) => to_raw_value(text),
        Err(_) => to_raw_value(&serde_json::json!({ "base64": STANDARD.encode(value) })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_have_a_json_form() {
        for (bytes, json) in [
            (&b"{\"a\": 1}"[..], "{\"a\": 1}"),
            (b"123456789012345678901234567890", "123456789012345678901234567890"),
            (b"plain \"text\"", "\"plain \\\"text\\\"\""),
            (b"", "\"\""),
            (b"\xff\xfe", "{\"base64\":\"//4=\"}"),
        ] {
            assert_eq!(to_json(bytes).unwrap().get(), json);
        }
    }
}
