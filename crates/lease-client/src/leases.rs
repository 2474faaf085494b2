//! The lease verbs as calls.

use std::sync::Arc;

use async_trait::async_trait;
use tenure_lease::{
    Acquired, Capabilities, Claim, Clock, Key, Leases, Page, Prefix, Query, Reign, Release, Released,
    Renewal, Renewed, Result, Revision, Revoke, Revoked, Status, Token, Transfer, Transferred, Verified,
    Watch, Wipe, Wiped, fallback,
};
use tenure_lease_wire::proto;
use tenure_lease_wire::proto::leases_client::LeasesClient;

use crate::Client;
use crate::call::Retry;
use crate::watch::RemoteWatch;

#[async_trait]
impl Leases for Client {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }

    /// As the server said when this client connected.
    fn warnings(&self) -> Vec<String> {
        self.0.warnings.clone()
    }

    fn clock(&self) -> Arc<dyn Clock> {
        self.0.clock.clone()
    }

    async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        let state = &*self.0;
        let Some(wait) = claim.wait.filter(|wait| !wait.is_zero()) else {
            let request = proto::AcquireRequest::from(claim);
            return state
                .call(Retry::IfLost, || state.keep_alive.least_busy().acquire(request.clone()))
                .await?
                .try_into();
        };
        let end = state.clock.now() + wait;
        let send = || async {
            let mut claim = claim.clone();
            claim.wait = Some(end.since(state.clock.now()));
            if let Some(permit) = state.keep_alive.first.waiter_permit() {
                return state.keep_alive.first.acquire_waiting(permit, claim.into()).await;
            }
            let pooled = state.waiting_channels.take();
            let request = state.headers.request(claim.into());
            Ok(LeasesClient::new(pooled.channel()).acquire(request).await?.into_inner())
        };
        state.call_within(wait + state.call_timeout, Retry::IfLost, send).await?.try_into()
    }

    async fn renew(&self, items: &[Renewal]) -> Result<Vec<Result<Renewed>>> {
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let send = || self.0.keep_alive.first.renew(items.iter().map(Into::into).collect());
        self.0.call(Retry::IfLost, send).await?.into_results(items.len())
    }

    async fn release(&self, release: Release) -> Result<Released> {
        let state = &*self.0;
        let request = proto::ReleaseRequest::from(release);
        state
            .call(Retry::IfLost, || state.keep_alive.least_busy().release(request.clone()))
            .await
            .map(Into::into)
    }

    async fn transfer(&self, transfer: Transfer) -> Result<Transferred> {
        let state = &*self.0;
        let request = proto::TransferRequest::from(transfer);
        let send = || async {
            Ok(state.leases.clone().transfer(state.headers.request(request.clone())).await?.into_inner())
        };
        state.call(Retry::IfNotSent, send).await?.try_into()
    }

    async fn revoke(&self, revoke: Revoke) -> Result<Revoked> {
        let state = &*self.0;
        let request = proto::RevokeRequest::from(revoke);
        let send = || async {
            let request = state.headers.request(request.clone());
            Ok(state.leases.clone().revoke(request).await?.into_inner())
        };
        state.call(Retry::IfNotSent, send).await?.try_into()
    }

    async fn verify(&self, key: &Key, token: &Token) -> Result<Verified> {
        let state = &*self.0;
        let send = || async {
            let request = proto::VerifyRequest { key: key.as_str().into(), token: token.reveal().into() };
            Ok(state.leases.clone().verify(state.headers.request(request)).await?.into_inner())
        };
        state.call(Retry::IfLost, send).await?.try_into()
    }

    async fn inspect(&self, key: &Key) -> Result<Status> {
        let state = &*self.0;
        let send = || async {
            let request = proto::InspectRequest { key: key.as_str().into() };
            Ok(state.leases.clone().inspect(state.headers.request(request)).await?.into_inner())
        };
        state.call(Retry::IfLost, send).await?.try_into()
    }

    async fn list(&self, query: &Query) -> Result<Page<Status>> {
        let state = &*self.0;
        let send = || async {
            let request = state.headers.request(query.into());
            Ok(state.leases.clone().list(request).await?.into_inner())
        };
        state.call(Retry::IfLost, send).await?.try_into()
    }

    async fn history(&self, key: &Key) -> Result<Vec<Reign>> {
        let state = &*self.0;
        let send = || async {
            let request = proto::HistoryRequest { key: key.as_str().into() };
            Ok(state.leases.clone().history(state.headers.request(request)).await?.into_inner())
        };
        state.call(Retry::IfLost, send).await?.reigns.into_iter().map(Reign::try_from).collect()
    }

    async fn watch(&self, prefix: &Prefix, from: Option<Revision>) -> Result<Box<dyn Watch>> {
        Ok(Box::new(RemoteWatch::open(self.0.clone(), prefix.clone(), from).await?))
    }

    async fn watch_any(&self, prefixes: &[Prefix], from: Option<Revision>) -> Result<Box<dyn Watch>> {
        fallback::watch_any(self, prefixes, from).await
    }

    async fn wipe(&self, wipe: Wipe) -> Result<Wiped> {
        let state = &*self.0;
        let request = proto::WipeRequest::from(wipe);
        let send = || async {
            let request = state.headers.request(request.clone());
            Ok(state.leases.clone().wipe(request).await?.into_inner())
        };
        state.call(Retry::IfNotSent, send).await?.try_into()
    }
}
