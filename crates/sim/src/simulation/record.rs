//! Writing the history down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tenure_lease::{Generation, Key, Token};

use super::HostId;
use crate::history::{Client, Event, History, Nanos, OpId, PermitId, Setting, Step, TokenId, What, token_id};

/// The history so far, and what is needed to write it.
pub(crate) struct Record {
    pub(crate) history: History,
    next: u64,
    /// Which token a client got a generation with.
    tokens: BTreeMap<(Client, Arc<str>, u64), TokenId>,
    /// Tokens that a store granted something to before their names were known, by the place in the history.
    nameless: BTreeMap<(Arc<str>, u64), usize>,
    /// Per attempt, the tokens that were sent.
    attempts: BTreeMap<u64, Vec<(Arc<str>, TokenId)>>,
    /// What hosts hold, as they would find it on their disks after a crash.
    held: BTreeMap<HostId, BTreeMap<Key, Generation>>,
    /// Permits that were not given up.
    open: BTreeSet<(Client, PermitId)>,
    /// The secrets that were sent, where output is kept to be searched for them.
    pub(crate) secrets: Option<BTreeSet<String>>,
    /// What was written for people.
    pub(crate) output: String,
}

impl Record {
    pub(crate) fn new(setting: Setting) -> Self {
        Self {
            history: History { setting, events: Vec::with_capacity(512) },
            next: 0,
            tokens: BTreeMap::new(),
            nameless: BTreeMap::new(),
            attempts: BTreeMap::new(),
            held: BTreeMap::new(),
            open: BTreeSet::new(),
            secrets: None,
            output: String::new(),
        }
    }

    pub(crate) fn note(&mut self, at: Nanos, what: What) {
        self.history.events.push(Event { at, what });
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Notes that a token was sent in an attempt.
    pub(crate) fn sent(&mut self, attempt: u64, key: &Key, token: &Token) -> TokenId {
        let id = token_id(token.digest().as_bytes());
        let sent = self.attempts.entry(attempt).or_default();
        if attempt != 0 && !sent.iter().any(|(k, t)| **k == *key.as_str() && *t == id) {
            sent.push((key.as_str().into(), id));
        }
        if let Some(secrets) = &mut self.secrets {
            secrets.insert(token.reveal().to_owned());
        }
        id
    }

    /// Notes which token a client got a generation with.
    pub(crate) fn got(&mut self, client: Client, key: &Key, generation: Generation, token: TokenId) {
        self.tokens.insert((client, key.as_str().into(), generation.get()), token);
    }

    pub(crate) fn token(&self, client: Client, key: &Key, generation: Generation) -> Option<TokenId> {
        self.tokens.get(&(client, Arc::from(key.as_str()), generation.get())).copied()
    }

    /// Ends an attempt: what it sent and did not keep is let go.
    pub(crate) fn settle(&mut self, at: Nanos, client: Client, attempt: u64, kept: &[TokenId]) {
        for (key, token) in self.attempts.remove(&attempt).unwrap_or_default() {
            if !kept.contains(&token) {
                self.dropped(at, client, &key, token);
            }
        }
    }

    pub(crate) fn dropped(&mut self, at: Nanos, client: Client, key: &str, token: TokenId) {
        self.note(at, What::Dropped { client, key: key.into(), token: Some(token) });
    }

    /// Notes a grant in the store's order; its token follows.
    pub(crate) fn granted(&mut self, at: Nanos, key: &Key, generation: u64, holder: &str) {
        self.nameless.insert((key.as_str().into(), generation), self.history.events.len());
        self.store(at, key, Step::Granted, generation, None, holder);
    }

    /// Says whose grant it was.
    pub(crate) fn name(&mut self, key: &Key, generation: u64, id: TokenId) {
        if let Some(place) = self.nameless.remove(&(Arc::from(key.as_str()), generation))
            && let Some(Event { what: What::Store { token, .. }, .. }) = self.history.events.get_mut(place)
        {
            *token = Some(id);
        }
    }

    pub(crate) fn store(
        &mut self,
        at: Nanos,
        key: &Key,
        step: Step,
        generation: u64,
        token: Option<TokenId>,
        holder: &str,
    ) {
        let (key, holder) = (key.to_string(), holder.to_owned());
        self.note(at, What::Store { store: 0, key, step, generation, token, holder });
    }

    pub(crate) fn permit(&mut self, client: Client) -> PermitId {
        let permit = self.number();
        self.open.insert((client, permit));
        permit
    }

    pub(crate) fn permit_over(&mut self, at: Nanos, client: Client, permit: PermitId) {
        if self.open.remove(&(client, permit)) {
            self.note(at, What::PermitOver { permit });
        }
    }

    /// A client is dead: it acts no more.
    pub(crate) fn died(&mut self, at: Nanos, client: Client) {
        let open: Vec<_> = self.open.range((client, 0)..=(client, PermitId::MAX)).copied().collect();
        for (client, permit) in open {
            self.permit_over(at, client, permit);
        }
    }

    pub(crate) fn remember_held(&mut self, host: HostId, key: &Key, generation: Generation) {
        self.held.entry(host).or_default().insert(key.clone(), generation);
    }

    pub(crate) fn forget_held(&mut self, host: HostId, key: &Key) {
        self.held.entry(host).or_default().remove(key);
    }

    /// What a host held when it died.
    pub(crate) fn take_held(&mut self, host: HostId) -> Vec<(Key, Generation)> {
        self.held.remove(&host).unwrap_or_default().into_iter().collect()
    }

    pub(crate) fn op(&mut self) -> OpId {
        self.number()
    }
}
