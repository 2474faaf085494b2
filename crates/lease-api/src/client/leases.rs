//! The lease verbs, as calls.

use std::sync::Arc;

use async_trait::async_trait;
use lease::{
    Acquired, Capabilities, Claim, Clock, Key, Leases, Page, Prefix, Query, Reign, Release, Released,
    Renewal, Renewed, Result, Revision, Revoke, Revoked, Status, Token, Transfer, Transferred, Verified,
    Watch, Wipe, Wiped,
};

use super::Client;
use super::call::Again;
use super::watch::RemoteWatch;
use crate::wire;
use crate::wire::leases_client::LeasesClient;

#[async_trait]
impl Leases for Client {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        let inner = &*self.0;
        let Some(wait) = claim.wait.filter(|wait| !wait.is_zero()) else {
            let asked = wire::AcquireRequest::from(claim);
            return inner.call(Again::Yes, || inner.lines.quiet().acquire(asked.clone())).await?.try_into();
        };
        let end = inner.clock.now() + wait;
        let send = || async {
            let mut claim = claim.clone();
            claim.wait = Some(end.since(inner.clock.now()));
            if let Some(place) = inner.lines.first.place() {
                return inner.lines.first.wait(place, claim.into()).await;
            }
            let seat = inner.lanes.seat();
            let request = inner.bearer.on(claim.into());
            Ok(LeasesClient::new(seat.channel()).acquire(request).await?.into_inner())
        };
        inner.call_within(wait + inner.call_timeout, Again::Yes, send).await?.try_into()
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Renewed>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let send = || self.0.lines.first.renew(items.iter().map(Into::into).collect());
        self.0.call(Again::Yes, send).await?.read(items.len())
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let inner = &*self.0;
        let asked = wire::ReleaseRequest::from(release);
        inner.call(Again::Yes, || inner.lines.quiet().release(asked.clone())).await.map(Into::into)
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        let inner = &*self.0;
        let asked = wire::TransferRequest::from(transfer);
        let send = || async {
            let request = inner.bearer.on(asked.clone());
            Ok(inner.leases.clone().transfer(request).await?.into_inner())
        };
        inner.call(Again::No, send).await?.try_into()
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        let inner = &*self.0;
        let asked = wire::RevokeRequest::from(revoke);
        let send = || async {
            let request = inner.bearer.on(asked.clone());
            Ok(inner.leases.clone().revoke(request).await?.into_inner())
        };
        inner.call(Again::No, send).await?.try_into()
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        let inner = &*self.0;
        let send = || async {
            let asked = wire::VerifyRequest { key: key.as_str().into(), token: token.reveal().into() };
            Ok(inner.leases.clone().verify(inner.bearer.on(asked)).await?.into_inner())
        };
        inner.call(Again::Yes, send).await?.try_into()
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        let inner = &*self.0;
        let send = || async {
            let asked = wire::InspectRequest { key: key.as_str().into() };
            Ok(inner.leases.clone().inspect(inner.bearer.on(asked)).await?.into_inner())
        };
        inner.call(Again::Yes, send).await?.try_into()
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        let inner = &*self.0;
        let send = || async {
            let request = inner.bearer.on(query.into());
            Ok(inner.leases.clone().list(request).await?.into_inner())
        };
        inner.call(Again::Yes, send).await?.try_into()
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        let inner = &*self.0;
        let send = || async {
            let asked = wire::HistoryRequest { key: key.as_str().into() };
            Ok(inner.leases.clone().history(inner.bearer.on(asked)).await?.into_inner())
        };
        inner.call(Again::Yes, send).await?.reigns.into_iter().map(Reign::try_from).collect()
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        Ok(Box::new(RemoteWatch::open(self.0.clone(), prefix.clone(), from).await?))
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        let inner = &*self.0;
        let asked = wire::WipeRequest::from(wipe);
        let send = || async {
            let request = inner.bearer.on(asked.clone());
            Ok(inner.leases.clone().wipe(request).await?.into_inner())
        };
        inner.call(Again::No, send).await?.try_into()
    }
}
