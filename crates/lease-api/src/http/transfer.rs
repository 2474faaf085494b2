//! `POST /v1/leases/transfer`

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use tenure_lease::{Generation, Holder, Key, Token, Transfer, Transferred};
use tenure_service::{Code, Json, Problem, ProblemBody};
use utoipa::ToSchema;

use super::body::format_generation;
use super::scope::Writer;
use crate::error::ApiError;
use crate::reserved;
use crate::service::LeaseService;

/// A lease to transfer.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(title = "Transfer", example = json!({
    "key": "tuner/3", "token": "q83vEjRWeJASNFZ4kBI0Vg", "generation": "1782579200000042", "to": "node-b"
}))]
pub(super) struct TransferBody {
    #[schema(min_length = 1, max_length = 256, pattern = "^[!-~]+$")]
    key: String,
    #[schema(pattern = "^[A-Za-z0-9_-]{22,128}$")]
    token: String,
    #[schema(pattern = "^[1-9][0-9]{0,15}$")]
    generation: String,
    /// The successor, which must be waiting for the key under this name.
    #[schema(min_length = 1, max_length = 128, pattern = "^[!-~]+$")]
    to: String,
}

/// The lease of the successor.
#[derive(Serialize, ToSchema)]
#[schema(title = "Transferred", example = json!({"holder": "node-b", "generation": "1782579200000043"}))]
pub(super) struct SuccessorBody {
    holder: String,
    generation: String,
}

/// Transfer a key to a waiting successor in one step.
#[utoipa::path(
    post, path = "/v1/leases/transfer", tag = "leases", operation_id = "transfer",
    request_body = TransferBody,
    responses(
        (status = 200, body = SuccessorBody),
        (status = 400, body = ProblemBody, content_type = "application/problem+json"),
        (status = 403, body = ProblemBody, content_type = "application/problem+json"),
        (status = 409, body = ProblemBody, content_type = "application/problem+json"),
    )
)]
pub(super) async fn transfer(
    State(service): State<Arc<LeaseService>>,
    _: Writer,
    Json(body): Json<TransferBody>,
) -> Result<Json<SuccessorBody>, ApiError> {
    let key = Key::new(body.key)?;
    reserved::check(&key)?;
    let transfer = Transfer {
        token: Token::parse(&body.token)?,
        generation: Generation::parse(&body.generation)?,
        to: Holder::new(body.to)?,
        key: key.clone(),
    };
    let to = transfer.to.clone();
    match service.store.transfer(transfer).await? {
        Transferred::Transferred(lease) => Ok(Json(SuccessorBody {
            holder: lease.holder.as_str().into(),
            generation: format_generation(lease.generation),
        })),
        Transferred::NotHeld => {
            let detail = format!("{key} is not held with this token and generation; nothing changed");
            Err(Problem::new(Code::NOT_HELD, detail).into())
        }
        Transferred::NoSuccessor => {
            let detail = format!("{to} is not waiting for {key}; nothing changed");
            Err(Problem::new(Code::NO_SUCCESSOR, detail).into())
        }
    }
}
