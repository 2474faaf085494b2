//! Claims and releases on their way to a shared call.

use std::sync::Arc;

use lease::{
    Busy, Claim, Digest, Error, Generation, Holder, Key, Meta, Refusal, Release, Released, Result, Tick, Ttl,
    limits,
};

use super::fault::{ENGINE, strange, too_many};
use super::names::{Call, digits, padded};
use super::reply;
use super::script::{ACQUIRE, RELEASE, Script};
use super::twins::Leaving;

/// A request of which many share one call.
pub(super) trait Job: Send + 'static {
    /// What it is answered with.
    type Answer: Send;

    /// Whether its answer says which parked claims were granted. Then the script is told who asks.
    const TELLS: bool = false;

    /// The script that serves it.
    fn script() -> &'static Script;

    /// Its key; two requests for one key never share a call.
    fn key(&self) -> &Key;

    /// Writes its arguments. `again` says that an earlier attempt may have been applied.
    fn write(&self, call: &mut Call, again: bool);

    /// Reads its answer.
    fn read(&self, raw: &[u8]) -> Result<Self::Answer>;

    /// What its answer says about a parked claim that was granted, if anything.
    fn granted(_raw: &[u8]) -> Option<&[u8]> {
        None
    }

    /// Reads the answer of the request at `index` from one text for all `count`.
    fn read_common(raw: &[u8], index: usize, count: usize) -> Result<Self::Answer>;
}

/// What a claim does about the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Park {
    /// Nothing.
    No,
    /// Takes a place, or keeps the one it has.
    Stay,
    /// Gives its place up, whatever the answer.
    Leave,
}

/// A claim on its way.
pub(super) struct Claiming {
    pub(super) key: Key,
    pub(super) holder: Holder,
    pub(super) digest: Digest,
    pub(super) ttl: Ttl,
    pub(super) meta: Meta,
    pub(super) instead_of: Option<Generation>,
    pub(super) park: Park,
    pub(super) entry: Option<Arc<[u8]>>,
}

/// What a claim is told.
#[derive(Debug)]
pub(super) enum Claimed {
    /// A new reign.
    New(Generation),
    /// The reign that this token has.
    Kept(Generation, Ttl, Holder),
    /// Something is in the way.
    Busy(Busy),
}

/// What a release does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// Gives the key back, and the place in the queue if there is one.
    Back,
    /// Only gives the place in the queue up.
    Quit,
}

/// A release on its way.
pub(super) struct Releasing {
    pub(super) key: Key,
    pub(super) digest: Digest,
    pub(super) generation: Option<Generation>,
    pub(super) to: Option<Holder>,
    pub(super) how: How,
    pub(super) entry: Option<Arc<[u8]>>,
    /// Until when a release that nobody waits for is worth repeating.
    pub(super) until: Option<Tick>,
    /// Keeps claims with this token out until the release is over, where nobody waits for it.
    #[expect(dead_code, reason = "what counts is when it is dropped")]
    pub(super) leaving: Option<Leaving>,
}

impl Claiming {
    /// The claim without a place in the queue.
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            key: claim.key.clone(),
            holder: claim.holder.clone(),
            digest: *claim.token.digest(),
            ttl: claim.ttl,
            meta: claim.meta.clone(),
            instead_of: claim.instead_of,
            park: Park::No,
            entry: None,
        }
    }
}

impl Job for Claiming {
    type Answer = Claimed;

    fn script() -> &'static Script {
        &ACQUIRE
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn write(&self, call: &mut Call, _again: bool) {
        let (holder, meta) = (self.holder.as_str().as_bytes(), self.meta.as_str().as_bytes());
        if self.instead_of.is_none() && self.park == Park::No && meta.is_empty() {
            call.text(self.digest.as_bytes());
        } else {
            let mode: &[u8] = match self.park {
                Park::No => b"-",
                Park::Stay => b"w",
                Park::Leave => b"l",
            };
            let (replace, length) =
                (self.instead_of.map_or([b'0'; 16], padded), digits::<4>(meta.len() as u64));
            let entry = self.entry.as_deref().unwrap_or_default();
            call.packed(&[self.digest.as_bytes(), &replace, mode, &length, meta, entry]);
        }
        call.packed(&[&digits::<8>(self.ttl.as_millis()), holder]);
    }

    fn read(&self, raw: &[u8]) -> Result<Claimed> {
        let (sign, rest) = raw.split_first().ok_or_else(|| strange("nothing"))?;
        let words = || std::str::from_utf8(rest).map_err(|_| strange("not a text"));
        match sign {
            b'+' => Ok(Claimed::New(reply::minted(words()?)?)),
            b'=' => {
                let mut words = words()?.splitn(3, ' ');
                let mut word = || words.next().unwrap_or_default();
                let generation = reply::minted(word())?;
                let ttl = word().parse().map_err(|_| strange("not a ttl"))?;
                Ok(Claimed::Kept(generation, Ttl::from_millis(ttl)?, Holder::new(word())?))
            }
            b'-' => Ok(Claimed::Busy(reply::busy(rest)?)),
            b'!' => Err(match rest {
                b"spent" => Refusal::TokenSpent.into(),
                b"waiters" => too_many("claims parked on one key", limits::WAITERS),
                _ => Error::unavailable(ENGINE, "all 2^53 generations of this key are used"),
            }),
            _ => Err(strange(&format!("{:?}", String::from_utf8_lossy(raw)))),
        }
    }

    /// The generations, 16 digits each.
    fn read_common(raw: &[u8], index: usize, count: usize) -> Result<Claimed> {
        let digits = raw.get(index * 16..index * 16 + 16).filter(|_| raw.len() == count * 16);
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        Ok(Claimed::New(reply::minted(digits.ok_or_else(|| strange("not a generation for each"))?)?))
    }
}

impl From<Release> for Releasing {
    fn from(release: Release) -> Self {
        let Release { key, token, generation, to } = release;
        Self {
            key,
            digest: *token.digest(),
            generation,
            to,
            how: How::Back,
            entry: None,
            until: None,
            leaving: None,
        }
    }
}

impl Job for Releasing {
    type Answer = Released;

    const TELLS: bool = true;

    fn script() -> &'static Script {
        &RELEASE
    }

    fn key(&self) -> &Key {
        &self.key
    }

    fn write(&self, call: &mut Call, again: bool) {
        if self.how == How::Back && !again && self.to.is_none() && self.entry.is_none() {
            return match self.generation {
                Some(generation) => call.proof(generation, &self.digest),
                None => call.packed(&[b"h", self.digest.as_bytes()]),
            };
        }
        let how: &[u8] = match self.how {
            How::Quit => b"q",
            How::Back if again => b"a",
            How::Back => b"r",
        };
        let generation = self.generation.map_or([b'0'; 16], padded);
        let heir = self.to.as_ref().map(Holder::as_str).unwrap_or_default().as_bytes();
        let length = digits::<3>(heir.len() as u64);
        let entry = self.entry.as_deref().unwrap_or_default();
        call.packed(&[b"h", self.digest.as_bytes(), &generation, how, &length, heir, entry]);
    }

    fn read(&self, raw: &[u8]) -> Result<Released> {
        match raw.first() {
            Some(b'r') => Ok(Released::Released),
            Some(b'n') => Ok(Released::NotHeld),
            _ => Err(strange(&format!("{:?}", String::from_utf8_lossy(raw)))),
        }
    }

    /// Behind the letter.
    fn granted(raw: &[u8]) -> Option<&[u8]> {
        raw.get(1..).filter(|granted| !granted.is_empty())
    }

    /// All of them were released.
    fn read_common(raw: &[u8], _index: usize, _count: usize) -> Result<Released> {
        match raw {
            b"r" => Ok(Released::Released),
            _ => Err(strange(&format!("{:?}", String::from_utf8_lossy(raw)))),
        }
    }
}
