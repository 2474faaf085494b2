//! What travels between hosts.

use std::sync::Arc;

use tenure_lease::{
    Acquired, Claim, Committed, Fence, HighWaterMark, Key, LogEntry, Op, Page, Prefix, Query, Record, Reign,
    Release, Released, Renewal, Renewed, Revision, Revoke, Revoked, Status, Token, Transfer, Transferred,
    Verified, Watched, Wipe, Wiped,
};

use crate::history::{Client, TokenId};

/// A packet.
#[derive(Debug)]
pub(crate) enum Packet {
    /// A request of a client.
    Operation { host: u32, client: Client, id: u64, ask: Arc<Operation> },
    /// No caller waits for the response any more.
    Cancel { client: Client, id: u64 },
    /// The answer to a request.
    Reply { client: Client, id: u64, answer: tenure_lease::Result<Reply> },
    /// The next item of a stream.
    Item { client: Client, stream: u64, place: u64, watched: Watched },
    /// A write to a resource beside the store.
    Write { client: Client, key: Key, mark: HighWaterMark, token: TokenId },
}

/// A request.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Acquire(Claim),
    Renew(Vec<Renewal>),
    Release(Release),
    Transfer(Transfer),
    Revoke(Revoke),
    Verify(Key, Token),
    Inspect(Key),
    List(Query),
    History(Key),
    /// With the number of the stream that the client opened for it.
    Watch(Prefix, Option<Revision>, u64),
    Wipe(Wipe),
    Commit(Vec<Op>),
    WriteFenced(Fence, Vec<Op>),
    Get(Key),
    Scan(Query),
    ReadLog(Key, u64, usize),
}

/// An answer.
#[derive(Debug)]
pub(crate) enum Reply {
    Acquired(Acquired),
    Renewed(Vec<tenure_lease::Result<Renewed>>),
    Released(Released),
    Transferred(Transferred),
    Revoked(Revoked),
    Verified(Verified),
    Status(Status),
    List(Page<Status>),
    History(Vec<Reign>),
    Watching,
    Wiped(Wiped),
    Committed(Committed),
    Record(Option<Record>),
    Scan(Page<Record>),
    Log(Vec<LogEntry>),
}

impl Packet {
    /// The same packet again, where arriving twice can make a difference: a second answer finds no waiting request.
    pub(crate) fn twin(&self) -> Option<Self> {
        match self {
            Self::Operation { host, client, id, ask } => {
                Some(Self::Operation { host: *host, client: *client, id: *id, ask: ask.clone() })
            }
            Self::Cancel { client, id } => Some(Self::Cancel { client: *client, id: *id }),
            Self::Write { client, key, mark, token } => {
                Some(Self::Write { client: *client, key: key.clone(), mark: *mark, token: *token })
            }
            Self::Reply { .. } | Self::Item { .. } => None,
        }
    }
}
