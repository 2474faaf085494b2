//! The lease verbs.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use lease::{Claim, Key, Query, Release, Renewal, Revision, Revoke, Token, Transfer, Wipe};
use service::{Caller, Level};
use tonic::{Request, Response, Status, Streaming};

use super::rights::Rights;
use super::{keep_alive, watch};
use crate::site::{OWNERSHIP, Site};
use crate::trouble::Trouble;
use crate::wire::leases_server::Leases;
use crate::wire::{self, *};

pub(super) struct Service {
    site: Arc<Site>,
}

impl Service {
    pub(super) const fn new(site: Arc<Site>) -> Self {
        Self { site }
    }
}

type Answer<T> = Result<Response<T>, Status>;
type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn told<T>(answer: Result<impl Into<T>, Trouble>) -> Answer<T> {
    Ok(Response::new(answer?.into()))
}

/// Checks and performs one claim.
pub(super) async fn acquire(
    site: &Site,
    rights: Rights,
    asked: AcquireRequest,
) -> Result<lease::Acquired, Trouble> {
    site.ttl(asked.ttl_ms.into())?;
    let claim = Claim::try_from(asked)?;
    rights.key(&claim.key)?;
    if claim.instead_of.is_some() {
        rights.force("replacing a live lease")?;
    }
    site.acquire(claim).await
}

/// Checks and performs one batch of renewals.
pub(super) async fn renew(
    site: &Site,
    rights: Rights,
    items: Vec<wire::Renewal>,
) -> Result<Vec<lease::Renewed>, Trouble> {
    let mut asked = Vec::with_capacity(items.len());
    for item in items {
        let item = Renewal::try_from(item)?;
        rights.key(&item.key)?;
        asked.push(item);
    }
    Ok(site.store.renew(&asked).await?)
}

/// Checks and performs one release.
pub(super) async fn release(
    site: &Site,
    rights: Rights,
    asked: ReleaseRequest,
) -> Result<lease::Released, Trouble> {
    let release = Release::try_from(asked)?;
    rights.key(&release.key)?;
    Ok(site.store.release(release).await?)
}

impl Service {
    async fn hand_over(&self, request: Request<TransferRequest>) -> Result<lease::Transferred, Trouble> {
        let rights = Rights::check(&request, Level::Write)?;
        let transfer = Transfer::try_from(request.into_inner())?;
        rights.key(&transfer.key)?;
        Ok(self.site.store.transfer(transfer).await?)
    }

    async fn force(&self, request: Request<RevokeRequest>) -> Result<lease::Revoked, Trouble> {
        Rights::check(&request, Level::Admin)?;
        let by = request.extensions().get::<Caller>().map_or("-", |caller| &caller.name).to_owned();
        let revoke = Revoke::try_from(request.into_inner())?;
        let (key, generation, reason) = (revoke.key.clone(), revoke.generation, revoke.reason.clone());
        let answer = self.site.store.revoke(revoke).await?;
        let reason = reason.as_str();
        tracing::info!(target: OWNERSHIP, %key, %generation, by, reason, outcome = ?answer, "revoke");
        Ok(answer)
    }
}

#[tonic::async_trait]
impl Leases for Service {
    type KeepAliveStream = Answers<KeepAliveResponse>;
    type WatchStream = Answers<WatchResponse>;

    async fn capabilities(&self, request: Request<CapabilitiesRequest>) -> Answer<CapabilitiesResponse> {
        Rights::check(&request, Level::Read)?;
        Ok(Response::new(self.site.capabilities.into()))
    }

    async fn acquire(&self, request: Request<AcquireRequest>) -> Answer<AcquireResponse> {
        let rights = Rights::check(&request, Level::Write)?;
        told(acquire(&self.site, rights, request.into_inner()).await)
    }

    async fn renew(&self, request: Request<RenewRequest>) -> Answer<RenewResponse> {
        let rights = Rights::check(&request, Level::Write)?;
        told(renew(&self.site, rights, request.into_inner().items).await)
    }

    async fn keep_alive(
        &self,
        request: Request<Streaming<KeepAliveRequest>>,
    ) -> Answer<Self::KeepAliveStream> {
        let rights = Rights::check(&request, Level::Write)?;
        let caller = request.extensions().get::<Caller>().cloned();
        let client = keep_alive::Client::new(self.site.clone(), rights, caller);
        Ok(Response::new(Box::pin(keep_alive::Answers::new(client, request.into_inner()))))
    }

    async fn release(&self, request: Request<ReleaseRequest>) -> Answer<ReleaseResponse> {
        let rights = Rights::check(&request, Level::Write)?;
        told(release(&self.site, rights, request.into_inner()).await)
    }

    async fn transfer(&self, request: Request<TransferRequest>) -> Answer<TransferResponse> {
        told(self.hand_over(request).await)
    }

    async fn revoke(&self, request: Request<RevokeRequest>) -> Answer<RevokeResponse> {
        told(self.force(request).await)
    }

    async fn verify(&self, request: Request<VerifyRequest>) -> Answer<VerifyResponse> {
        Rights::check(&request, Level::Read)?;
        let asked = request.into_inner();
        let parts = || Ok::<_, lease::Error>((Key::new(&asked.key)?, Token::parse(&asked.token)?));
        let (key, token) = parts().map_err(Trouble::from)?;
        told(self.site.store.verify(&key, &token).await.map_err(Trouble::from))
    }

    async fn inspect(&self, request: Request<InspectRequest>) -> Answer<wire::Status> {
        let rights = Rights::check(&request, Level::Read)?;
        let key = Key::new(request.into_inner().key).map_err(Trouble::from)?;
        let status = self.site.store.inspect(&key).await.map_err(Trouble::from)?;
        told(Ok(rights.shown(status)))
    }

    async fn list(&self, request: Request<wire::Query>) -> Answer<ListResponse> {
        let rights = Rights::check(&request, Level::Read)?;
        let query = Query::try_from(request.into_inner()).map_err(Trouble::from)?;
        let mut page = self.site.store.list(&query).await.map_err(Trouble::from)?;
        page.items = page.items.into_iter().map(|status| rights.shown(status)).collect();
        told(Ok(page))
    }

    async fn history(&self, request: Request<HistoryRequest>) -> Answer<HistoryResponse> {
        Rights::check(&request, Level::Read)?;
        let key = Key::new(request.into_inner().key).map_err(Trouble::from)?;
        let reigns = self.site.store.history(&key).await.map_err(Trouble::from)?;
        Ok(Response::new(HistoryResponse { reigns: reigns.into_iter().map(Into::into).collect() }))
    }

    async fn watch(&self, request: Request<WatchRequest>) -> Answer<Self::WatchStream> {
        let rights = Rights::check(&request, Level::Read)?;
        let asked = request.into_inner();
        let prefix = lease::Prefix::new(asked.prefix).map_err(Trouble::from)?;
        let changes = watch::changes(&self.site, &prefix, asked.from.map(Revision::new), rights).await?;
        Ok(Response::new(Box::pin(changes)))
    }

    async fn wipe(&self, request: Request<WipeRequest>) -> Answer<WipeResponse> {
        Rights::check(&request, Level::Admin)?;
        let wipe = Wipe::try_from(request.into_inner()).map_err(Trouble::from)?;
        let (prefix, gate) = (wipe.prefix.clone(), wipe.gate.key.clone());
        let answer = self.site.store.wipe(wipe).await.map_err(Trouble::from)?;
        tracing::info!(target: OWNERSHIP, %prefix, %gate, outcome = ?answer, "wipe");
        Ok(Response::new(answer.into()))
    }
}
