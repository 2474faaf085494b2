//! What a store on a disk owes to those it answered, whatever happened to its machine.

use std::collections::{BTreeMap, BTreeSet};

use tenure_lease::{Claim, Mode, Op, Origin, Token};

use super::operation::{Operation, id};
use crate::history::{Answer, Outcome, TokenId};

/// All that was asked and answered so far.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    pub(crate) keys: BTreeMap<String, KeyFacts>,
    pub(crate) commits: Vec<Commit>,
    /// What is wrong, in words; the first one counts.
    pub(crate) wrong: Option<String>,
}

/// What is known of a key from the answers.
#[derive(Debug, Default)]
pub(crate) struct KeyFacts {
    pub(crate) reigns: Vec<ReignFacts>,
    /// The greatest generation in any answer.
    pub(crate) top: u64,
    /// A lock-delay: the generation it followed, and until when it lasts at least.
    pub(crate) delay: Option<(u64, u64)>,
    /// Tokens whose end was requested, and generations.
    given_up: BTreeSet<TokenId>,
    /// Per token how often it was claimed, and the greatest generation in any answer before.
    claimed: BTreeMap<TokenId, (u32, u64)>,
    attacked: BTreeSet<u64>,
}

/// What is known of a reign that was answered.
#[derive(Debug)]
pub(crate) struct ReignFacts {
    pub(crate) token: Token,
    pub(crate) generation: u64,
    pub(crate) local: bool,
    /// When it was first answered.
    known: u64,
    /// Until when its holder may believe in it, in true time.
    pub(crate) until: u64,
    /// Requests for a shorter time: when sent, for how long, and when they were over.
    shorter: Vec<(u64, u64, Option<u64>)>,
    /// Its end was requested.
    pub(crate) maybe_ended: bool,
    /// Its end was answered: how, and when that was.
    pub(crate) ended: Option<(&'static str, u64)>,
    /// Its process died while it was believed.
    pub(crate) died: bool,
}

/// A commit, known by its entry in the log.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) ops: Vec<Op>,
    pub(crate) fence: Option<(String, u64, Mode)>,
    pub(crate) sent: u64,
    pub(crate) answered: Option<u64>,
    /// Nothing of it happened.
    pub(crate) refused: bool,
}

/// An operation under way.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) ask: Operation,
    pub(crate) at: u64,
    /// The greatest generation in any answer before.
    top: u64,
    /// The number of the commit, if it is one.
    pub(crate) commit: Option<usize>,
    /// The journal had failed before it was asked.
    pub(crate) after_failure: bool,
}

impl Judge {
    pub(crate) fn fail(&mut self, words: impl Into<String>) {
        self.wrong.get_or_insert_with(|| words.into());
    }

    /// Notes what is asked, and what may come of it.
    pub(crate) fn asked(
        &mut self,
        ask: Operation,
        at: u64,
        commit: Option<usize>,
        after_failure: bool,
    ) -> Sent {
        let call = ask.call();
        let facts = self.keys.entry(call.key).or_default();
        match &ask {
            Operation::Release(r) => facts.give_up(&r.token),
            Operation::Transfer(t) => facts.give_up(&t.token),
            Operation::Revoke(r) => facts.attack(r.generation.get()),
            Operation::Acquire(Claim { instead_of: Some(dead), .. }) => facts.attack(dead.get()),
            Operation::Acquire(c) => facts.shorten(&c.token, at, c.ttl.as_duration().as_nanos() as u64),
            Operation::Renew(r) => {
                if let Some(ttl) = r.ttl {
                    facts.shorten(&r.token, at, ttl.as_duration().as_nanos() as u64);
                }
            }
            _ => {}
        }
        let mut top = facts.top;
        if let Operation::Acquire(claim) = &ask {
            let claimed = facts.claimed.entry(id(&claim.token)).or_insert((0, top));
            claimed.0 += 1;
            top = claimed.1;
        }
        Sent { ask, at, top, commit, after_failure }
    }

    /// Notes that a claim was dropped, which gives back what it may have got.
    pub(crate) fn dropped(&mut self, sent: &Sent) {
        if let Operation::Acquire(claim) = &sent.ask {
            self.keys.entry(claim.key.to_string()).or_default().give_up(&claim.token);
        }
    }

    /// Weighs an answer.
    pub(crate) fn answered(&mut self, sent: &Sent, answer: &Answer, now: u64) {
        let key = sent.ask.call().key;
        let facts = self.keys.entry(key.clone()).or_default();
        let told = answer.generation.filter(|_| sent.commit.is_none());
        let word = &*answer.word;
        let verdict = match (&sent.ask, word) {
            (Operation::Acquire(claim), "granted" | "parked") => facts.granted(sent, claim, answer, now),
            // A claim in process that got no answer gives back what it may have got.
            (Operation::Acquire(claim), "unknown") if claim.origin == Origin::Local => {
                facts.give_up(&claim.token);
                None
            }
            (Operation::Renew(r), "renewed") => {
                // A request without a TTL does not know which one continues.
                let ttl = r.ttl.map_or(0, |ttl| ttl.as_duration().as_nanos() as u64);
                facts.renewed(&r.token, r.generation.get(), sent.at, ttl)
            }
            (Operation::Renew(r), "lost") => {
                let word = if answer.why.as_deref() == Some("expired") { "expired" } else { "lost" };
                facts.over(&r.token, Some(r.generation.get()), word, (sent.at, now))
            }
            (Operation::Release(r), "released") => {
                // By the token alone it may have been any of its reigns.
                let once = facts.claimed.get(&id(&r.token)).is_none_or(|(times, _)| *times == 1);
                let which = r.generation.map(tenure_lease::Generation::get);
                let this = |reign: &ReignFacts| which.map_or(once, |g| reign.generation == g);
                facts.end(|reign| reign.token == r.token && this(reign), "released", now)
            }
            (Operation::Transfer(t), "transferred") => {
                facts.end(|reign| reign.generation == t.generation.get(), "transferred", now)
            }
            (Operation::Revoke(r), "revoked") => {
                let delay = r.delay.map_or(0, |delay| delay.as_nanos() as u64);
                facts.delay = Some((r.generation.get(), sent.at + delay));
                facts.end(|reign| reign.generation == r.generation.get(), "revoked", now)
            }
            (Operation::Verify(_, token), "live") => facts.seen_live(token, answer.generation, sent.at),
            (Operation::Verify(_, token), _) if answer.outcome == Outcome::Ok => {
                facts.over(token, None, word, (sent.at, now))
            }
            (Operation::Inspect(_), "free") => facts.seen_free(sent.at, now),
            _ => None,
        };
        facts.top = facts.top.max(told.unwrap_or(0));
        if let Some(words) = verdict {
            self.fail(format!("{key}: {words}"));
        }
        let writes =
            matches!(word, "granted" | "parked" | "released" | "transferred" | "revoked" | "written");
        if writes && sent.after_failure {
            self.fail(format!("{key}: {word} though the journal had failed before it was asked"));
        }
        if let Some(n) = sent.commit {
            self.commits[n].answered = (word == "written").then_some(now);
            self.commits[n].refused = answer.outcome == Outcome::Refused;
        }
        if let (Operation::Acquire(c), Outcome::Refused | Outcome::Ok) = (&sent.ask, answer.outcome) {
            self.keys.entry(key.clone()).or_default().shortened(&c.token, sent.at, now);
        }
        if let (Operation::Renew(r), Outcome::Refused | Outcome::Ok) = (&sent.ask, answer.outcome) {
            self.keys.entry(key).or_default().shortened(&r.token, sent.at, now);
        }
    }

    /// The process is gone: nothing that it was asked will happen any more, and its own leases are over.
    pub(crate) fn crashed(&mut self, now: u64) {
        for reign in self.keys.values_mut().flat_map(|facts| &mut facts.reigns) {
            reign.shorter.iter_mut().for_each(|(_, _, over)| *over = over.or(Some(now)));
            // That time is up is not on the disk: a reign that comes back gets more of it.
            if matches!(reign.ended, Some(("expired", _))) {
                (reign.ended, reign.until) = (None, 0);
            }
            if reign.local && reign.ended.is_none() {
                reign.died = reign.until > now;
                reign.until = 0;
            }
        }
    }
}

impl KeyFacts {
    fn give_up(&mut self, token: &Token) {
        self.given_up.insert(id(token));
        for reign in self.reigns.iter_mut().filter(|reign| reign.token == *token) {
            reign.maybe_ended = true;
        }
    }

    fn attack(&mut self, generation: u64) {
        self.attacked.insert(generation);
        for reign in self.reigns.iter_mut().filter(|reign| reign.generation == generation) {
            reign.maybe_ended = true;
        }
    }

    /// A request for a time that may be shorter than the present one is on its way.
    fn shorten(&mut self, token: &Token, at: u64, ttl: u64) {
        for reign in self.reigns.iter_mut().filter(|reign| reign.token == *token) {
            reign.until = reign.until.min(at + ttl);
            reign.shorter.push((at, ttl, None));
        }
    }

    fn shortened(&mut self, token: &Token, at: u64, now: u64) {
        for reign in self.reigns.iter_mut().filter(|reign| reign.token == *token) {
            for entry in reign.shorter.iter_mut().filter(|entry| entry.0 == at) {
                entry.2 = Some(now);
            }
        }
    }

    fn granted(&mut self, sent: &Sent, claim: &Claim, answer: &Answer, now: u64) -> Option<String> {
        let generation = answer.generation?;
        let until = match &*answer.word {
            // Its ttl has been running since an unknown moment.
            "parked" => 0,
            _ => sent.at + claim.ttl.as_duration().as_nanos() as u64,
        };
        if let Some(reign) =
            self.reigns.iter_mut().find(|r| r.token == claim.token && r.generation == generation)
        {
            if let Some((how, _)) = reign.ended.filter(|(_, when)| *when < sent.at) {
                return Some(format!("{generation} was granted again after it was {how}"));
            }
            reign.believe(sent.at, until);
            return None;
        }
        let mut verdict = None;
        if let Some(twin) = self.reigns.iter().find(|reign| reign.generation == generation) {
            verdict = Some(format!("{} was granted twice", twin.generation));
        } else if generation <= sent.top {
            verdict = Some(format!("granted {generation} after {} was known", sent.top));
        } else if let Some(later) = self.reigns.iter().find(|reign| reign.generation > generation)
            && until > now
            && !self.given_up.contains(&id(&claim.token))
            && !self.attacked.contains(&generation)
        {
            verdict =
                Some(format!("granted {} while the holder of {generation} may believe", later.generation));
        } else if let Some(rival) =
            self.reigns.iter().find(|reign| reign.generation < generation && reign.believed(now))
        {
            verdict = Some(format!(
                "granted {generation} while the holder of {} may believe for {} ms",
                rival.generation,
                (rival.until - now) / 1_000_000
            ));
        } else if let Some((after, until)) = self.delay.filter(|(after, _)| generation > *after)
            && now < until
        {
            verdict = Some(format!("granted {generation} within the lock-delay after {after}"));
        }
        let maybe_ended = self.given_up.contains(&id(&claim.token)) || self.attacked.contains(&generation);
        self.reigns.push(ReignFacts {
            token: claim.token.clone(),
            generation,
            local: claim.origin == Origin::Local,
            known: now,
            until,
            shorter: Vec::new(),
            maybe_ended,
            ended: None,
            died: false,
        });
        verdict
    }

    fn renewed(&mut self, token: &Token, generation: u64, sent: u64, ttl: u64) -> Option<String> {
        let reign = self.reigns.iter_mut().find(|r| r.token == *token && r.generation == generation)?;
        if let Some((how, _)) = reign.ended.filter(|(_, when)| *when < sent) {
            return Some(format!("{generation} was renewed after it was {how}"));
        }
        reign.believe(sent, sent + ttl);
        None
    }

    /// The store says that this token holds nothing.
    fn over(
        &mut self,
        token: &Token,
        generation: Option<u64>,
        word: &str,
        when: (u64, u64),
    ) -> Option<String> {
        let (asked, now) = when;
        let mut verdict = None;
        let same = |r: &&mut ReignFacts| r.token == *token && generation.is_none_or(|g| g == r.generation);
        for reign in self.reigns.iter_mut().filter(same) {
            if reign.believed(now) && reign.known < asked {
                let left = (reign.until - now) / 1_000_000;
                verdict = Some(format!("{} is {word}, though it had {left} ms left", reign.generation));
            }
            match word {
                "lost" => reign.ended = reign.ended.or(Some(("lost", now))),
                "expired" => reign.ended = reign.ended.or(Some(("expired", now))),
                _ => {}
            }
        }
        verdict
    }

    fn end(&mut self, which: impl Fn(&ReignFacts) -> bool, how: &'static str, now: u64) -> Option<String> {
        for reign in self.reigns.iter_mut().filter(|reign| which(reign)) {
            // Of two answers the one that says how it ended is the better one.
            if reign.ended.is_none_or(|(word, _)| matches!(word, "lost" | "expired")) {
                reign.ended = Some((how, now));
            }
        }
        None
    }

    fn seen_live(&self, token: &Token, generation: Option<u64>, asked: u64) -> Option<String> {
        let reign = self.reigns.iter().find(|r| r.token == *token && Some(r.generation) == generation)?;
        let (how, _) = reign.ended.filter(|(_, when)| *when < asked)?;
        Some(format!("{} is live after it was {how}", reign.generation))
    }

    fn seen_free(&self, asked: u64, now: u64) -> Option<String> {
        let reign = self.reigns.iter().find(|reign| reign.believed(now) && reign.known < asked)?;
        Some(format!("free, though {} had {} ms left", reign.generation, (reign.until - now) / 1_000_000))
    }
}

impl ReignFacts {
    /// Whether its holder may rely on it now.
    pub(crate) fn believed(&self, now: u64) -> bool {
        self.until > now && !self.maybe_ended && self.ended.is_none() && !self.died
    }

    /// A request sent at `sent` was answered, so its holder may believe until `until`, unless a request for less
    /// that was under way at the same time came later.
    fn believe(&mut self, sent: u64, until: u64) {
        let rivals =
            self.shorter.iter().filter(|(at, _, over)| *at != sent && over.is_none_or(|o| o >= sent));
        let until = rivals.map(|(at, ttl, _)| at + ttl).fold(until, u64::min);
        self.until = self.until.max(until);
    }
}
