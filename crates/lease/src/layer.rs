//! Stores in front of other stores.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    Acquired, Announcement, Capabilities, Claim, Clock, Committed, Fence, Key, Leases, LogEntry, Op, Page,
    Prefix, Query, Record, Records, Reign, Release, Released, Renewal, Renewed, Result, Revision, Revoke,
    Revoked, Status, Store, Token, Transfer, Transferred, Verified, Watch, Wipe, Wiped,
};

/// Declares [`StoreLayer`] and makes every layer a store, from one list of verbs.
macro_rules! store_layer {
    (
        Leases { $($lease:ident($($lease_arg:ident: $lease_type:ty),*) -> $leased:ty;)* }
        Records { $($record:ident($($record_arg:ident: $record_type:ty),*) -> $recorded:ty;)* }
    ) => {
        /// A store in front of another one. Every verb is forwarded to [`StoreLayer::inner`] unless the layer
        /// overrides it. Whatever implements this trait is a [`Store`].
        ///
        /// ```
        /// use std::sync::Arc;
        /// use tenure_lease::{Acquired, Claim, Result, Store, StoreLayer};
        ///
        /// /// Marks every claim as remote.
        /// struct Remote(Arc<dyn Store>);
        ///
        /// impl StoreLayer for Remote {
        ///     fn inner(&self) -> &dyn Store {
        ///         &*self.0
        ///     }
        ///
        ///     async fn acquire(&self, claim: Claim) -> Result<Acquired> {
        ///         self.inner().acquire(claim.remote()).await
        ///     }
        /// }
        /// ```
        pub trait StoreLayer: Send + Sync + 'static {
            /// The store behind this one.
            fn inner(&self) -> &dyn Store;

            /// Forwards [`Leases::capabilities`].
            fn capabilities(&self) -> Capabilities {
                self.inner().capabilities()
            }

            /// Forwards [`Leases::warnings`].
            fn warnings(&self) -> Vec<String> {
                self.inner().warnings()
            }

            /// Forwards [`Leases::clock`].
            fn clock(&self) -> Arc<dyn Clock> {
                self.inner().clock()
            }

            $(
                #[doc = concat!("Forwards [`Leases::", stringify!($lease), "`].")]
                fn $lease(&self, $($lease_arg: $lease_type),*) -> impl Future<Output = Result<$leased>> + Send {
                    async move { self.inner().$lease($($lease_arg),*).await }
                }
            )*

            $(
                #[doc = concat!("Forwards [`Records::", stringify!($record), "`].")]
                fn $record(&self, $($record_arg: $record_type),*) -> impl Future<Output = Result<$recorded>> + Send {
                    async move { self.inner().$record($($record_arg),*).await }
                }
            )*
        }

        #[async_trait]
        impl<T: StoreLayer> Leases for T {
            fn capabilities(&self) -> Capabilities {
                StoreLayer::capabilities(self)
            }

            fn warnings(&self) -> Vec<String> {
                StoreLayer::warnings(self)
            }

            fn clock(&self) -> Arc<dyn Clock> {
                StoreLayer::clock(self)
            }

            $(
                async fn $lease(&self, $($lease_arg: $lease_type),*) -> Result<$leased> {
                    StoreLayer::$lease(self, $($lease_arg),*).await
                }
            )*
        }

        #[async_trait]
        impl<T: StoreLayer> Records for T {
            $(
                async fn $record(&self, $($record_arg: $record_type),*) -> Result<$recorded> {
                    StoreLayer::$record(self, $($record_arg),*).await
                }
            )*
        }
    };
}

store_layer! {
    Leases {
        acquire(claim: Claim) -> Acquired;
        renew(items: &[Renewal]) -> Vec<Result<Renewed>>;
        release(release: Release) -> Released;
        transfer(transfer: Transfer) -> Transferred;
        revoke(revoke: Revoke) -> Revoked;
        verify(key: &Key, token: &Token) -> Verified;
        inspect(key: &Key) -> Status;
        list(query: &Query) -> Page<Status>;
        history(key: &Key) -> Vec<Reign>;
        watch(prefix: &Prefix, from: Option<Revision>) -> Box<dyn Watch>;
        watch_any(prefixes: &[Prefix], from: Option<Revision>) -> Box<dyn Watch>;
        wipe(wipe: Wipe) -> Wiped;
    }
    Records {
        commit(ops: &[Op]) -> Committed;
        write_fenced(fence: &Fence, ops: &[Op]) -> Committed;
        get(key: &Key) -> Option<Record>;
        scan(query: &Query) -> Page<Record>;
        discover(prefix: &Prefix) -> Vec<Record>;
        announce(items: &[Announcement]) -> Vec<bool>;
        read_log(log: &Key, after: u64, limit: usize) -> Vec<LogEntry>;
    }
}
