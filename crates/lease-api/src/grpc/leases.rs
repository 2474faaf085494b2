//! The lease verbs.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use tenure_lease::{Claim, Key, Query, Release, Renewal, Revision, Revoke, Token, Transfer, Wipe};
use tenure_service::{Caller, Level};
use tonic::{Request, Response, Status, Streaming};

use super::access::Access;
use super::{keep_alive, watch};
use crate::error::ApiError;
use crate::service::{LeaseService, OWNERSHIP_TARGET};
use tenure_lease_wire::proto::leases_server::Leases;
use tenure_lease_wire::proto::{self, *};

pub(super) struct LeasesRpc {
    service: Arc<LeaseService>,
}

impl LeasesRpc {
    pub(super) const fn new(service: Arc<LeaseService>) -> Self {
        Self { service }
    }
}

type RpcResult<T> = Result<Response<T>, Status>;
type RpcStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn respond<T>(result: Result<impl Into<T>, ApiError>) -> RpcResult<T> {
    Ok(Response::new(result?.into()))
}

/// Checks and performs one claim.
pub(super) async fn acquire(
    service: &LeaseService,
    access: Access,
    request: AcquireRequest,
) -> Result<tenure_lease::Acquired, ApiError> {
    service.parse_ttl(request.ttl_ms.into())?;
    let claim = Claim::try_from(request)?;
    access.require_key(&claim.key)?;
    if claim.instead_of.is_some() {
        access.require_admin("replacing a live lease")?;
    }
    Ok(access.redact_busy(service.acquire(claim).await?))
}

/// Checks and performs one batch of renewals.
pub(super) async fn renew(
    service: &LeaseService,
    access: Access,
    items: Vec<proto::Renewal>,
) -> Result<RenewResponse, ApiError> {
    let mut renewals = Vec::with_capacity(items.len());
    for item in items {
        let item = Renewal::try_from(item)?;
        access.require_key(&item.key)?;
        renewals.push(item);
    }
    let results = service.store.renew(&renewals).await?;
    Ok(RenewResponse::from_results(results, |error| (&ApiError::from(error)).into()))
}

/// Checks and performs one release.
pub(super) async fn release(
    service: &LeaseService,
    access: Access,
    request: ReleaseRequest,
) -> Result<tenure_lease::Released, ApiError> {
    let release = Release::try_from(request)?;
    access.require_key(&release.key)?;
    Ok(service.store.release(release).await?)
}

impl LeasesRpc {
    async fn checked_transfer(
        &self,
        request: Request<TransferRequest>,
    ) -> Result<tenure_lease::Transferred, ApiError> {
        let access = Access::check(&request, Level::Write)?;
        let transfer = Transfer::try_from(request.into_inner())?;
        access.require_key(&transfer.key)?;
        Ok(self.service.store.transfer(transfer).await?)
    }

    async fn checked_revoke(
        &self,
        request: Request<RevokeRequest>,
    ) -> Result<tenure_lease::Revoked, ApiError> {
        Access::check(&request, Level::Admin)?;
        let by = request.extensions().get::<Caller>().map_or("-", |caller| &caller.name).to_owned();
        let revoke = Revoke::try_from(request.into_inner())?;
        let (key, generation, reason) = (revoke.key.clone(), revoke.generation, revoke.reason.clone());
        let outcome = self.service.store.revoke(revoke).await?;
        let reason = reason.as_str();
        tracing::info!(target: OWNERSHIP_TARGET, %key, %generation, by, reason, ?outcome, "revoke");
        Ok(outcome)
    }
}

#[tonic::async_trait]
impl Leases for LeasesRpc {
    type KeepAliveStream = RpcStream<KeepAliveResponse>;
    type WatchStream = RpcStream<WatchResponse>;

    async fn capabilities(&self, request: Request<CapabilitiesRequest>) -> RpcResult<CapabilitiesResponse> {
        Access::check(&request, Level::Read)?;
        let (warnings, capabilities) = (self.service.store.warnings(), self.service.capabilities.into());
        Ok(Response::new(CapabilitiesResponse { warnings, ..capabilities }))
    }

    async fn acquire(&self, request: Request<AcquireRequest>) -> RpcResult<AcquireResponse> {
        let access = Access::check(&request, Level::Write)?;
        respond(acquire(&self.service, access, request.into_inner()).await)
    }

    async fn renew(&self, request: Request<RenewRequest>) -> RpcResult<RenewResponse> {
        let access = Access::check(&request, Level::Write)?;
        respond(renew(&self.service, access, request.into_inner().items).await)
    }

    async fn keep_alive(
        &self,
        request: Request<Streaming<KeepAliveRequest>>,
    ) -> RpcResult<Self::KeepAliveStream> {
        let access = Access::check(&request, Level::Write)?;
        let caller = request.extensions().get::<Caller>().cloned();
        let client = keep_alive::StreamClient::new(self.service.clone(), access, caller);
        Ok(Response::new(Box::pin(keep_alive::Responses::new(client, request.into_inner()))))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> RpcResult<ReleaseResponse> {
        let access = Access::check(&request, Level::Write)?;
        respond(release(&self.service, access, request.into_inner()).await)
    }

    async fn transfer(&self, request: Request<TransferRequest>) -> RpcResult<TransferResponse> {
        respond(self.checked_transfer(request).await)
    }

    async fn revoke(&self, request: Request<RevokeRequest>) -> RpcResult<RevokeResponse> {
        respond(self.checked_revoke(request).await)
    }

    async fn verify(&self, request: Request<VerifyRequest>) -> RpcResult<VerifyResponse> {
        Access::check(&request, Level::Read)?;
        let request = request.into_inner();
        let parts = || Ok::<_, tenure_lease::Error>((Key::new(&request.key)?, Token::parse(&request.token)?));
        let (key, token) = parts().map_err(ApiError::from)?;
        respond(self.service.store.verify(&key, &token).await.map_err(ApiError::from))
    }

    async fn inspect(&self, request: Request<InspectRequest>) -> RpcResult<proto::Status> {
        let access = Access::check(&request, Level::Read)?;
        let key = Key::new(request.into_inner().key).map_err(ApiError::from)?;
        let status = self.service.store.inspect(&key).await.map_err(ApiError::from)?;
        respond(Ok(access.redact(status)))
    }

    async fn list(&self, request: Request<proto::Query>) -> RpcResult<ListResponse> {
        let access = Access::check(&request, Level::Read)?;
        let query = Query::try_from(request.into_inner()).map_err(ApiError::from)?;
        let mut page = self.service.store.list(&query).await.map_err(ApiError::from)?;
        page.items = page.items.into_iter().map(|status| access.redact(status)).collect();
        respond(Ok(page))
    }

    async fn history(&self, request: Request<HistoryRequest>) -> RpcResult<HistoryResponse> {
        Access::check(&request, Level::Read)?;
        let key = Key::new(request.into_inner().key).map_err(ApiError::from)?;
        let reigns = self.service.store.history(&key).await.map_err(ApiError::from)?;
        Ok(Response::new(HistoryResponse { reigns: reigns.into_iter().map(Into::into).collect() }))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> RpcResult<Self::WatchStream> {
        let access = Access::check(&request, Level::Read)?;
        let request = request.into_inner();
        let prefix = tenure_lease::Prefix::new(request.prefix).map_err(ApiError::from)?;
        let changes =
            watch::watch_changes(&self.service, &prefix, request.from.map(Revision::new), access).await?;
        Ok(Response::new(Box::pin(changes)))
    }

    async fn wipe(&self, request: Request<WipeRequest>) -> RpcResult<WipeResponse> {
        Access::check(&request, Level::Admin)?;
        let wipe = Wipe::try_from(request.into_inner()).map_err(ApiError::from)?;
        let (prefix, gate) = (wipe.prefix.clone(), wipe.gate.key.clone());
        let outcome = self.service.store.wipe(wipe).await.map_err(ApiError::from)?;
        tracing::info!(target: OWNERSHIP_TARGET, %prefix, %gate, ?outcome, "wipe");
        Ok(Response::new(outcome.into()))
    }
}
