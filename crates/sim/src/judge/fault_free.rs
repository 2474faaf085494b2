//! When nothing was at fault.

use std::collections::BTreeMap;

use crate::history::{Client, Event, History, Nanos, What};

/// The faults of a history by host.
pub(crate) struct FaultFree {
    faults: Vec<(Nanos, Nanos, Option<u32>, bool)>,
    hosts: BTreeMap<Client, u32>,
}

impl FaultFree {
    pub(crate) fn of(history: &History) -> Self {
        let mut calm = Self { faults: Vec::new(), hosts: BTreeMap::new() };
        for Event { at, what } in &history.events {
            match what {
                What::Fault { name, host, until } => {
                    calm.faults.push((*at, *until, *host, name == "crash"));
                }
                What::Started { client, host, .. } => drop(calm.hosts.insert(*client, *host)),
                _ => {}
            }
        }
        calm
    }

    /// Whether no fault touched the store, the client or all hosts from `from` to `to`.
    pub(crate) fn holds(&self, from: Nanos, to: Nanos, store: u32, client: Option<Client>) -> bool {
        let host = client.and_then(|client| self.hosts.get(&client).copied());
        self.faults.iter().all(|(begun, over, whose, _)| {
            let ours = whose.is_none_or(|whose| whose == store || Some(whose) == host);
            !ours || *over < from || *begun > to
        })
    }

    /// Whether the host of a client, or a store, crashed between `from` and `to`.
    pub(crate) fn crashed(&self, from: Nanos, to: Nanos, store: Option<u32>, client: Option<Client>) -> bool {
        let host = client.and_then(|client| self.hosts.get(&client).copied());
        self.faults.iter().any(|(begun, _, whose, crash)| {
            *crash && whose.is_some() && (*whose == store || *whose == host) && *begun >= from && *begun <= to
        })
    }
}
