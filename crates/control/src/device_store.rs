//! The stored records of the device. Every write is fenced by the gate, so a former server cannot write.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tenure_lease::{Committed, Digest, Fence, Key, Op, Prefix, Query, Store};

use crate::code::{Code, Refusal};
use crate::device::{DeviceSnapshot, MAX_PRESETS, Preset, Settings};

/// Timeout of a write.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

const STATE: &str = "control:device/state";
const SETTINGS: &str = "control:device/settings";
const PRESETS: &str = "control:device/preset/";
const LAST: &str = "control:device/last";

/// Reads and writes the records of the device.
pub(crate) struct DeviceStore {
    store: Arc<dyn Store>,
}

/// The device as stored by an earlier process.
#[derive(Default)]
pub(crate) struct StoredDevice {
    pub(crate) snapshot: Option<DeviceSnapshot>,
    pub(crate) settings: Settings,
    pub(crate) presets: BTreeMap<u8, Preset>,
    pub(crate) last_token: Option<Digest>,
}

impl DeviceStore {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Loads all records. An unreadable record counts as absent.
    pub(crate) async fn load(&self) -> tenure_lease::Result<StoredDevice> {
        let mut stored = StoredDevice {
            snapshot: self.read_json(STATE).await?,
            settings: self.read_json(SETTINGS).await?.unwrap_or_default(),
            ..StoredDevice::default()
        };
        let last = self.store.get(&Key::new(LAST)?).await?;
        stored.last_token =
            last.and_then(|record| <[u8; 32]>::try_from(&*record.value).ok()).map(Digest::from_bytes);
        let page =
            self.store.scan(&Query { limit: MAX_PRESETS, ..Query::new(Prefix::new(PRESETS)?) }).await?;
        for record in page.items {
            let id = record.key.as_str().strip_prefix(PRESETS).and_then(|id| id.parse().ok());
            if let (Some(id), Ok(preset)) = (id, serde_json::from_slice(&record.value)) {
                stored.presets.insert(id, preset);
            }
        }
        Ok(stored)
    }

    async fn read_json<T: DeserializeOwned>(&self, key: &str) -> tenure_lease::Result<Option<T>> {
        let record = self.store.get(&Key::new(key)?).await?;
        Ok(record.and_then(|record| match serde_json::from_slice(&record.value) {
            Ok(value) => Some(value),
            Err(error) => {
                tracing::warn!(target: crate::telemetry::TARGET, key, %error, "ignoring an unreadable record");
                None
            }
        }))
    }

    pub(crate) async fn save_snapshot(&self, fence: Fence, snapshot: &DeviceSnapshot) -> Result<(), Refusal> {
        self.write(fence, put(STATE, snapshot)?).await
    }

    pub(crate) async fn save_settings(&self, fence: Fence, settings: &Settings) -> Result<(), Refusal> {
        self.write(fence, put(SETTINGS, settings)?).await
    }

    pub(crate) async fn save_preset(
        &self,
        fence: Fence,
        id: u8,
        preset: Option<&Preset>,
    ) -> Result<(), Refusal> {
        let name = format!("{PRESETS}{id}");
        let op = match preset {
            Some(preset) => put(&name, preset)?,
            None => Op::Delete { key: Key::new(name).map_err(|error| store_refusal(&error))? },
        };
        self.write(fence, op).await
    }

    /// Stores the token digest of the next lease, so that a later process recognizes the token as ended.
    pub(crate) async fn save_last_token(&self, fence: Fence, digest: &Digest) -> Result<(), Refusal> {
        let key = Key::new(LAST).map_err(|error| store_refusal(&error))?;
        self.write(fence, Op::Put { key, value: Arc::from(digest.as_bytes().as_slice()), ttl: None }).await
    }

    async fn write(&self, fence: Fence, op: Op) -> Result<(), Refusal> {
        let clock = self.store.clock();
        let ops = [op];
        let answer = tokio::select! {
            biased;
            answer = self.store.write_fenced(&fence, &ops) => answer,
            () = clock.sleep_until(clock.now() + WRITE_TIMEOUT) => {
                return Err(Refusal::new(Code::OPERATION_FAILED, "store timed out; the write may have happened"));
            }
        };
        match answer {
            Ok(Committed::Written { .. }) => Ok(()),
            Ok(Committed::FencedOut { .. } | Committed::Conflict { .. }) => Err(Refusal::new(
                Code::SYSTEM_NOT_READY,
                "another process serves the device; nothing was stored",
            )),
            Err(error) => Err(store_refusal(&error)),
        }
    }
}

fn put(key: &str, value: &impl Serialize) -> Result<Op, Refusal> {
    let key = Key::new(key).map_err(|error| store_refusal(&error))?;
    let value = serde_json::to_vec(value)
        .map_err(|error| Refusal::new(Code::INTERNAL_ERROR, format!("cannot encode JSON: {error}")))?;
    Ok(Op::Put { key, value: value.into(), ttl: None })
}

/// Converts a store error to a refusal.
pub(crate) fn store_refusal(error: &tenure_lease::Error) -> Refusal {
    let code = match error {
        tenure_lease::Error::Refused(_) => Code::STORAGE_FULL,
        tenure_lease::Error::Unavailable { .. } => Code::SYSTEM_NOT_READY,
        tenure_lease::Error::Invalid { .. } | tenure_lease::Error::Unknown { .. } => Code::OPERATION_FAILED,
    };
    tracing::warn!(target: crate::telemetry::TARGET, %error, "store error");
    Refusal::new(code, format!("store error: {error}"))
}
