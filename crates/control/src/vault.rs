//! What the device keeps in the store. Every write is fenced by the gate: a former server writes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::{Committed, Digest, Fence, Key, Op, Prefix, Query, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::code::{Code, Refusal};
use crate::device::{Kept, MOST_PRESETS, Preset, Settings};

/// How long the store may take.
const PATIENCE: Duration = Duration::from_secs(5);

const STATE: &str = "control:device/state";
const SETTINGS: &str = "control:device/settings";
const PRESETS: &str = "control:device/preset/";
const LAST: &str = "control:device/last";

/// The records of the device.
pub(crate) struct Vault {
    store: Arc<dyn Store>,
}

/// What an earlier process left.
#[derive(Default)]
pub(crate) struct Left {
    pub(crate) kept: Option<Kept>,
    pub(crate) settings: Settings,
    pub(crate) presets: BTreeMap<u8, Preset>,
    pub(crate) last: Option<Digest>,
}

impl Vault {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Reads everything. A record that this build cannot read counts as absent.
    pub(crate) async fn load(&self) -> lease::Result<Left> {
        let mut left = Left {
            kept: self.read(STATE).await?,
            settings: self.read(SETTINGS).await?.unwrap_or_default(),
            ..Left::default()
        };
        let last = self.store.get(&Key::new(LAST)?).await?;
        left.last = last.and_then(|record| <[u8; 32]>::try_from(&*record.value).ok()).map(Digest::from_bytes);
        let page =
            self.store.scan(&Query { limit: MOST_PRESETS, ..Query::new(Prefix::new(PRESETS)?) }).await?;
        for record in page.items {
            let id = record.key.as_str().strip_prefix(PRESETS).and_then(|id| id.parse().ok());
            if let (Some(id), Ok(preset)) = (id, serde_json::from_slice(&record.value)) {
                left.presets.insert(id, preset);
            }
        }
        Ok(left)
    }

    async fn read<T: DeserializeOwned>(&self, key: &str) -> lease::Result<Option<T>> {
        let record = self.store.get(&Key::new(key)?).await?;
        Ok(record.and_then(|record| match serde_json::from_slice(&record.value) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(target: crate::telemetry::TARGET, key, %error, "a stored record cannot be read; going on without");
                None
            }
        }))
    }

    pub(crate) async fn keep(&self, fence: Fence, kept: &Kept) -> Result<(), Refusal> {
        self.write(fence, put(STATE, kept)?).await
    }

    pub(crate) async fn settings(&self, fence: Fence, settings: &Settings) -> Result<(), Refusal> {
        self.write(fence, put(SETTINGS, settings)?).await
    }

    pub(crate) async fn preset(&self, fence: Fence, id: u8, preset: Option<&Preset>) -> Result<(), Refusal> {
        let name = format!("{PRESETS}{id}");
        let op = match preset {
            Some(preset) => put(&name, preset)?,
            None => Op::Delete { key: Key::new(name).map_err(|error| failed(&error))? },
        };
        self.write(fence, op).await
    }

    /// Remembers the lease that is about to begin, so that a later process knows its token as ended.
    pub(crate) async fn last(&self, fence: Fence, digest: &Digest) -> Result<(), Refusal> {
        let key = Key::new(LAST).map_err(|error| failed(&error))?;
        self.write(fence, Op::Put { key, value: Arc::from(digest.as_bytes().as_slice()), ttl: None }).await
    }

    async fn write(&self, fence: Fence, op: Op) -> Result<(), Refusal> {
        let clock = self.store.clock();
        let ops = [op];
        let answer = tokio::select! {
            biased;
            answer = self.store.write_fenced(&fence, &ops) => answer,
            () = clock.sleep_until(clock.now() + PATIENCE) => {
                return Err(Refusal::new(Code::OPERATION_FAILED, "the store did not answer in time; it may have been stored"));
            }
        };
        match answer {
            Ok(Committed::Written { .. }) => Ok(()),
            Ok(Committed::FencedOut { .. } | Committed::Conflict { .. }) => Err(Refusal::new(
                Code::SYSTEM_NOT_READY,
                "another process serves the device now; nothing was stored",
            )),
            Err(error) => Err(failed(&error)),
        }
    }
}

fn put(key: &str, value: &impl Serialize) -> Result<Op, Refusal> {
    let key = Key::new(key).map_err(|error| failed(&error))?;
    let value = serde_json::to_vec(value)
        .map_err(|error| Refusal::new(Code::INTERNAL_ERROR, format!("cannot be written as JSON: {error}")))?;
    Ok(Op::Put { key, value: value.into(), ttl: None })
}

/// What the store said, for a client.
pub(crate) fn failed(error: &lease::Error) -> Refusal {
    let code = match error {
        lease::Error::Refused(_) => Code::STORAGE_FULL,
        lease::Error::Unavailable { .. } => Code::SYSTEM_NOT_READY,
        lease::Error::Invalid { .. } | lease::Error::Unknown { .. } => Code::OPERATION_FAILED,
    };
    tracing::warn!(target: crate::telemetry::TARGET, %error, "the store refused");
    Refusal::new(code, format!("the store refused: {error}"))
}
