//! What a node knows: targets, the living, who has what. Everything that changes it is a method here, and none of
//! them does anything but change it.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use lease::{Busy, End, Placement, Reason, Tick, limits::RESERVATION_MS};

use crate::holding::Status;
use crate::look::{About, Owner, Seen, Targets};
use crate::plan::{Other, Peer, Plan, Preference, Rules, Sight, plan};
use crate::{Target, TargetError, events};

/// The least wait before a busy target is asked for again.
const SOON: Duration = Duration::from_millis(50);

/// What a node's beat means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Beat {
    /// It is not known yet.
    New,
    /// It was silent.
    Again,
    /// It lives, as was known.
    Known,
}

/// What a node knows.
pub(crate) struct Book {
    pub(crate) me: String,
    pub(crate) placement: Placement,
    pub(crate) targets: BTreeMap<String, Arc<Target>>,
    pub(crate) invalid: BTreeMap<String, TargetError>,
    pub(crate) digest: String,
    pub(crate) peers: BTreeMap<String, Peer>,
    pub(crate) abouts: BTreeMap<String, About>,
    /// Nodes whose lease ran out: dead until they are heard again.
    pub(crate) silent: HashSet<String>,
    pub(crate) mine: HashMap<String, Tick>,
    pub(crate) statuses: HashMap<String, Arc<Status>>,
    /// Being taken or given up.
    pub(crate) moving: HashSet<String>,
    /// Of those, what was heard to end, or was listed anew, meanwhile: an answer that is under way may be of before.
    overtaken: HashSet<String>,
    pub(crate) others: HashMap<String, Other>,
    free: HashMap<String, Tick>,
    resting: HashMap<String, Tick>,
    /// Whether each target is to be polled.
    active: BTreeMap<String, bool>,
    preference: Preference,
    /// The preference is not of the nodes and targets that are known now.
    stale: bool,
    /// It is not of who has what now.
    shifted: bool,
    /// Somebody who has something may not be among the living.
    doubtful: bool,
    /// The last plan was to do nothing, and nothing has changed since: until when that stands, if time can end it.
    idle: Option<Option<Tick>>,
}

impl Book {
    pub(crate) fn new(me: &str, name: Option<&str>, placement: Placement, now: Tick) -> Self {
        let own = Peer { id: me.to_owned(), name: name.unwrap_or(me).to_owned(), foreign: false, since: now };
        Self {
            me: me.to_owned(),
            placement,
            targets: BTreeMap::new(),
            invalid: BTreeMap::new(),
            digest: String::new(),
            peers: BTreeMap::from([(me.to_owned(), own)]),
            abouts: BTreeMap::new(),
            silent: HashSet::new(),
            mine: HashMap::new(),
            statuses: HashMap::new(),
            moving: HashSet::new(),
            overtaken: HashSet::new(),
            others: HashMap::new(),
            free: HashMap::new(),
            resting: HashMap::new(),
            active: BTreeMap::new(),
            preference: Preference::default(),
            stale: true,
            shifted: true,
            doubtful: true,
            idle: None,
        }
    }

    /// All targets, read anew.
    pub(crate) fn set_targets(&mut self, found: Targets, now: Tick) {
        self.idle = None;
        let active: BTreeMap<String, bool> =
            found.valid.iter().map(|(id, target)| (id.clone(), !target.paused)).collect();
        self.stale |= active != self.active;
        (self.targets, self.invalid, self.digest) = (found.valid, found.invalid, found.digest);
        self.active = active;
        self.tidy(now);
    }

    /// One target, read anew; none when it is gone.
    pub(crate) fn set_target(
        &mut self,
        id: &str,
        found: Option<Result<Arc<Target>, TargetError>>,
        now: Tick,
    ) {
        self.idle = None;
        self.invalid.remove(id);
        let before = self.active.get(id).copied();
        match found {
            Some(Ok(target)) => {
                self.active.insert(id.to_owned(), !target.paused);
                self.targets.insert(id.to_owned(), target);
            }
            gone => {
                self.active.remove(id);
                self.targets.remove(id);
                if let Some(Err(error)) = gone {
                    self.invalid.insert(id.to_owned(), error);
                }
            }
        }
        self.stale |= before != self.active.get(id).copied();
        // The digest is of another time; the next whole look makes it right.
        self.digest.clear();
        self.tidy(now);
    }

    /// What time and changes have made pointless is forgotten, and what nobody is known to have is free.
    fn tidy(&mut self, now: Tick) {
        let active = &self.active;
        let known = |id: &String| active.contains_key(id);
        self.free.retain(|id, _| known(id));
        self.resting.retain(|id, until| known(id) && *until > now);
        // A lease of a target that is not in the list may be of one that is about to be.
        for id in self.active.keys() {
            if !self.mine.contains_key(id) && !self.others.contains_key(id) {
                self.free.entry(id.clone()).or_insert(now);
            }
        }
    }

    /// The living, found anew. This node is always among them.
    pub(crate) fn set_nodes(&mut self, seen: Vec<Seen>, now: Tick) {
        let mut peers = BTreeMap::new();
        let mut abouts = BTreeMap::new();
        if let Some(own) = self.peers.get(&self.me) {
            peers.insert(self.me.clone(), own.clone());
        }
        for Seen { id, foreign, about } in seen {
            if id == self.me {
                continue;
            }
            let since = self.peers.get(&id).map_or(now, |peer| peer.since);
            let name = about.name.clone().unwrap_or_else(|| id.clone());
            peers.insert(id.clone(), Peer { id: id.clone(), name, foreign, since });
            abouts.insert(id, about);
        }
        if peers != self.peers {
            (self.stale, self.doubtful, self.idle) = (true, true, None);
        }
        (self.peers, self.abouts) = (peers, abouts);
        self.silent.retain(|id| self.peers.contains_key(id));
        self.doubt_the_dead(now);
    }

    /// Whoever is not among the living may hold nothing any more, whether or not an event said so.
    fn doubt_the_dead(&mut self, now: Tick) {
        if !std::mem::take(&mut self.doubtful) {
            return;
        }
        for (id, other) in &mut self.others {
            if !other.foreign && other.until.is_none() && !self.peers.contains_key(&other.holder) {
                self.idle = None;
                other.until = Some(now);
                self.free.entry(id.clone()).or_insert(now);
            }
        }
    }

    /// A node beat. Most beats tell nothing new.
    pub(crate) fn beat(&mut self, node: &str) -> Beat {
        if self.silent.remove(node) {
            (self.stale, self.idle) = (true, None);
            return Beat::Again;
        }
        if self.peers.contains_key(node) { Beat::Known } else { Beat::New }
    }

    pub(crate) fn left(&mut self, node: &str, now: Tick) {
        if node != self.me && self.peers.remove(node).is_some() {
            (self.stale, self.doubtful, self.idle) = (true, true, None);
            self.abouts.remove(node);
            self.silent.remove(node);
            self.doubt_the_dead(now);
        }
    }

    /// Every lease, listed anew.
    pub(crate) fn set_owners(&mut self, owners: Vec<Owner>, now: Tick) {
        self.idle = None;
        self.others.clear();
        self.overtaken.extend(self.moving.iter().cloned());
        self.stale = true;
        for owner in owners {
            if owner.holder != self.me {
                self.set_owner(owner, now);
            }
        }
        self.doubt_the_dead(now);
        self.tidy(now);
    }

    pub(crate) fn set_owner(&mut self, owner: Owner, now: Tick) {
        self.idle = None;
        let until =
            (owner.foreign || owner.reserved).then(|| now + owner.remaining.unwrap_or_default().max(SOON));
        self.free.remove(&owner.id);
        self.shifted = true;
        self.stale |= owner.foreign;
        self.doubtful = true;
        self.others.insert(owner.id, Other { holder: owner.holder, foreign: owner.foreign, until });
    }

    /// A target has an owner.
    pub(crate) fn granted(&mut self, id: &str, holder: &str) {
        self.idle = None;
        self.stale |= self.silent.remove(holder);
        if holder == self.me {
            return;
        }
        self.free.remove(id);
        let other = Other { holder: holder.to_owned(), foreign: false, until: None };
        self.doubtful = true;
        self.stale |= self.others.insert(id.to_owned(), other).is_some_and(|before| before.foreign);
        self.shifted = true;
    }

    /// A target's owner is no more. True when this node should have it now.
    pub(crate) fn ended(&mut self, id: &str, holder: &str, end: End, now: Tick) -> bool {
        self.idle = None;
        if self.others.get(id).is_some_and(|other| other.holder == holder) {
            self.others.remove(id);
        }
        self.shifted = true;
        if self.moving.contains(id) {
            self.overtaken.insert(id.to_owned());
        }
        if !self.mine.contains_key(id) && !self.others.contains_key(id) {
            self.free.insert(id.to_owned(), now);
        }
        if end == End::Expired && holder != self.me && self.peers.contains_key(holder) {
            // Its heartbeat may live a little longer than it does; placement must not wait for that.
            self.stale |= self.silent.insert(holder.to_owned());
        }
        // As it was before: who was preferred then is who the owner named, if it named anybody.
        let wanted = self.active.get(id) == Some(&true);
        let owner = self.preference.of(id).is_some_and(|peer| peer.id == self.me);
        wanted && owner && holder != self.me && !self.mine.contains_key(id) && !self.moving.contains(id)
    }

    /// This node has a target now.
    pub(crate) fn took(&mut self, id: &str, status: Arc<Status>, now: Tick) {
        self.idle = None;
        self.arrived(id);
        self.stale |= self.others.remove(id).is_some_and(|other| other.foreign);
        self.shifted = true;
        self.free.remove(id);
        self.resting.remove(id);
        self.mine.insert(id.to_owned(), now);
        self.statuses.insert(id.to_owned(), status);
    }

    /// What was under way about a target is over. True when something heard meanwhile may be later than the answer.
    pub(crate) fn arrived(&mut self, id: &str) -> bool {
        self.moving.remove(id);
        self.overtaken.remove(id)
    }

    /// Somebody or something else has it.
    pub(crate) fn busy(&mut self, id: &str, busy: &Busy, now: Tick, sync: Duration) {
        self.idle = None;
        let overtaken = self.arrived(id);
        let left = busy.remaining.unwrap_or(sync) + SOON;
        let holder = busy.holder.as_ref().map(|holder| holder.as_str().to_owned());
        let ours = holder
            .as_ref()
            .is_some_and(|holder| self.peers.contains_key(holder) && !self.silent.contains(holder));
        let (foreign, until) = match busy.reason {
            // An event will tell, unless it came before this answer did: then nobody would.
            Reason::Held if ours => (false, overtaken.then(|| now + sync)),
            Reason::Held | Reason::Reserved => (false, Some(now + left)),
            // No event tells when it lets go: ask now and then, and when its time is over.
            Reason::Foreign => (true, Some(now + left.min(sync))),
            _ => (false, Some(now + left.min(sync))),
        };
        let Some(holder) = holder.filter(|holder| *holder != self.me) else {
            self.rest(id, now + left.min(sync));
            return;
        };
        self.free.remove(id);
        let before = self.others.insert(id.to_owned(), Other { holder, foreign, until });
        self.doubtful = true;
        self.stale |= before.is_some_and(|before| before.foreign) != foreign;
        self.shifted = true;
    }

    /// Leaves a target alone for a while.
    pub(crate) fn rest(&mut self, id: &str, until: Tick) {
        self.idle = None;
        self.arrived(id);
        self.resting.insert(id.to_owned(), until);
    }

    /// This node has a target no more: it is somebody's, or free.
    pub(crate) fn gave(&mut self, id: &str, heir: Option<&str>, now: Tick, rest: Duration) {
        self.idle = None;
        self.arrived(id);
        self.mine.remove(id);
        self.statuses.remove(id);
        self.shifted = true;
        if !self.active.contains_key(id) {
            return;
        }
        self.resting.insert(id.to_owned(), now + rest);
        if self.others.contains_key(id) {
            return;
        }
        match heir {
            Some(heir) => {
                let until = Some(now + Duration::from_millis(RESERVATION_MS) + SOON);
                self.others.insert(id.to_owned(), Other { holder: heir.to_owned(), foreign: false, until });
            }
            None => drop(self.free.entry(id.to_owned()).or_insert(now)),
        }
    }

    fn living(&self) -> Vec<Peer> {
        self.peers.values().filter(|peer| !self.silent.contains(&peer.id)).cloned().collect()
    }

    fn refresh(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        if stale {
            self.preference = Preference::new(self.placement, &self.living(), &self.active, &self.others);
        }
        if std::mem::take(&mut self.shifted) || stale {
            let Self { me, mine, others, preference, .. } = self;
            preference.settle(|id| match mine.contains_key(id) {
                true => Some(me.as_str()),
                false => others.get(id).map(|other| other.holder.as_str()),
            });
        }
    }

    /// The preferred owner of a target.
    pub(crate) fn preferred(&self, id: &str) -> Option<&str> {
        self.preference.of(id).map(|peer| peer.id.as_str())
    }

    /// What to do now.
    pub(crate) fn plan(&mut self, now: Tick, rules: Rules) -> Plan {
        if let Some(wake) = self.idle.filter(|wake| wake.is_none_or(|wake| wake > now)) {
            return Plan { wake, ..Plan::default() };
        }
        self.refresh();
        // Others whose time is over may be free, and so wait like free ones.
        for (id, other) in &self.others {
            if let Some(until) = other.until.filter(|until| *until <= now) {
                self.free.entry(id.clone()).or_insert(until);
            }
        }
        let sight = Sight {
            me: &self.me,
            now,
            targets: &self.active,
            mine: &self.mine,
            others: &self.others,
            free: &self.free,
            resting: &self.resting,
        };
        let mut plan = plan(&sight, &self.preference, rules);
        // With other rules there might have been something to do.
        let nothing = plan.acquire.is_empty() && plan.release.is_empty() && rules.may_take && rules.moves > 0;
        self.idle = nothing.then_some(plan.wake);
        plan.acquire.retain(|id| !self.moving.contains(id));
        plan.release.retain(|step| !self.moving.contains(&step.id));
        plan
    }

    /// Who should have each target when this node is gone.
    pub(crate) fn heirs(&mut self) -> HashMap<String, Option<String>> {
        let rest: Vec<Peer> = self.living().into_iter().filter(|peer| peer.id != self.me).collect();
        let mut preference = Preference::new(self.placement, &rest, &self.active, &self.others);
        preference.settle(|id| self.others.get(id).map(|other| other.holder.as_str()));
        let heir = |id: &str| preference.of(id).filter(|heir| !heir.foreign).map(|heir| heir.id.clone());
        self.mine.keys().map(|id| (id.clone(), heir(id))).collect()
    }

    /// Says how much there is to know.
    pub(crate) fn tell_size(&self) {
        let paused = self.active.values().filter(|active| !**active).count();
        events::known(self.targets.len(), paused, self.invalid.len(), self.peers.len());
    }

    pub(crate) fn is_wanted(&self, id: &str) -> bool {
        self.active.get(id) == Some(&true)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SEC: Duration = Duration::from_secs(1);

    type Change = fn(&mut Book);

    fn at(secs: u64) -> Tick {
        Tick::from_nanos(secs * 1_000_000_000)
    }

    fn rules(moves: usize) -> Rules {
        Rules { fallback: 10 * SEC, settle: 2 * SEC, moves, may_take: true }
    }

    fn book(targets: usize, peers: &[&str]) -> Book {
        let mut book = Book::new("a", None, Placement::Balanced, at(0));
        let one = |i: usize| {
            let id = format!("t{i}");
            let value = json!({"address": "http://127.0.0.1/"}).to_string();
            (id.clone(), Arc::new(Target::parse(&id, value.as_bytes()).unwrap()))
        };
        let valid = (0..targets).map(one).collect();
        book.set_nodes(peers.iter().map(|id| seen(id)).collect(), at(0));
        book.set_targets(Targets { valid, ..Targets::default() }, at(0));
        book
    }

    fn seen(id: &str) -> Seen {
        Seen { id: id.to_owned(), foreign: false, about: About::default() }
    }

    fn held_by(node: &str) -> Busy {
        let holder = lease::Holder::new(node).ok();
        Busy { holder, generation: None, remaining: Some(30 * SEC), position: 1, reason: Reason::Held }
    }

    #[test]
    fn a_node_is_always_among_its_own_living() {
        let mut book = book(4, &[]);
        book.set_nodes(Vec::new(), at(1));
        assert_eq!(book.plan(at(1), rules(9)).acquire.len(), 4);
    }

    #[test]
    fn a_node_whose_lease_ran_out_is_dead_until_it_is_heard_again() {
        let mut book = book(4, &["b"]);
        let theirs: Vec<String> = book.targets.keys().cloned().collect();
        book.plan(at(1), rules(9));
        let theirs: Vec<String> = theirs.into_iter().filter(|id| book.preferred(id) == Some("b")).collect();
        assert_eq!(theirs.len(), 2);
        theirs.iter().for_each(|id| book.granted(id, "b"));
        assert!(!book.ended(&theirs[0], "b", End::Expired, at(30)), "the next plan decides");
        assert_eq!(book.plan(at(30), rules(9)).acquire.len(), 3, "the other one is still held");
        assert_eq!((book.beat("b"), book.beat("b"), book.beat("c")), (Beat::Again, Beat::Known, Beat::New));
        assert_eq!(book.plan(at(30), rules(9)).acquire.len(), 2);
    }

    #[test]
    fn a_release_for_another_is_not_this_node_s() {
        let mut book = book(4, &["b"]);
        book.plan(at(1), rules(9));
        for id in ["t0", "t1", "t2", "t3"] {
            book.granted(id, "c");
            let mine = book.preferred(id) == Some("a");
            assert_eq!(book.ended(id, "c", End::Released, at(2)), mine, "{id}");
        }
    }

    #[test]
    fn what_a_dead_node_held_is_doubted_without_any_event() {
        let mut book = book(2, &["b"]);
        for id in ["t0", "t1"] {
            book.granted(id, "b");
        }
        assert_eq!(book.plan(at(5), rules(9)).acquire.len(), 0);
        book.set_nodes(Vec::new(), at(40));
        assert_eq!(book.plan(at(40), rules(9)).acquire.len(), 2);
    }

    #[test]
    fn a_foreign_holder_is_asked_again_at_every_sync() {
        let mut book = book(1, &[]);
        let busy = Busy {
            holder: lease::Holder::new("seed-node").ok(),
            generation: None,
            remaining: Some(30 * SEC),
            position: 1,
            reason: Reason::Foreign,
        };
        book.busy("t0", &busy, at(1), 5 * SEC);
        let plan = book.plan(at(2), rules(9));
        assert_eq!((plan.acquire.len(), plan.wake), (0, Some(at(6))));
        assert_eq!(book.preferred("t0"), None, "what a foreign node holds is not placed");
        assert_eq!(book.plan(at(17), rules(9)).acquire, ["t0"]);
    }

    #[test]
    fn an_answer_that_is_older_than_the_event_is_doubted_after_a_while() {
        let (mut book, busy) = (book(1, &["b"]), held_by("b"));
        let news: [Change; 2] = [
            |book| assert!(!book.ended("t0", "b", End::Released, at(1))),
            // The end may be what the listing made up for.
            |book| book.set_owners(Vec::new(), at(1)),
        ];
        for overtakes in news {
            book.moving.insert("t0".to_owned());
            overtakes(&mut book);
            book.busy("t0", &busy, at(1), 5 * SEC);
            assert_eq!(book.plan(at(2), rules(9)).acquire.len(), 0);
            assert_eq!(book.plan(at(16), rules(9)).acquire, ["t0"]);
        }
    }

    #[test]
    fn an_answer_that_nothing_overtook_is_believed_until_an_event_tells_otherwise() {
        let mut book = book(1, &["b"]);
        book.ended("t0", "b", End::Released, at(1));
        book.moving.insert("t0".to_owned());
        book.busy("t0", &held_by("b"), at(1), 5 * SEC);
        let plan = book.plan(at(99), rules(9));
        assert_eq!((plan.acquire.len(), plan.wake), (0, None), "nobody asks again and again");
        book.ended("t0", "b", End::Released, at(100));
        assert_eq!(book.plan(at(111), rules(9)).acquire, ["t0"]);
    }

    #[test]
    fn a_plan_to_do_nothing_stands_until_something_changes_or_its_time_comes() {
        let mut book = book(2, &["b"]);
        book.granted("t0", "b");
        book.granted("t1", "b");
        assert_eq!(book.plan(at(1), rules(0)), Plan::default());
        assert_eq!(book.idle, None, "under other rules there might be something to do");
        assert_eq!(book.plan(at(1), rules(9)), Plan::default());
        assert_eq!(book.idle, Some(None));
        book.set_nodes(vec![seen("b")], at(2));
        assert_eq!(
            (book.beat("b"), book.idle),
            (Beat::Known, Some(None)),
            "what is known already changes nothing"
        );
        book.ended("t0", "b", End::Released, at(3));
        assert_eq!(book.idle, None);
        assert_eq!(book.plan(at(3), rules(9)).acquire, ["t0"]);
        book.granted("t0", "b");
        book.set_nodes(Vec::new(), at(4));
        assert_eq!(book.idle, None, "who holds it is dead");
        book.moving.insert("t0".to_owned());
        book.rest("t0", at(40));
        book.moving.insert("t1".to_owned());
        book.rest("t1", at(50));
        assert_eq!((book.plan(at(5), rules(9)).wake, book.idle), (Some(at(40)), Some(Some(at(40)))));
        assert_eq!(book.plan(at(39), rules(9)), Plan { wake: Some(at(40)), ..Plan::default() });
        assert_eq!(book.plan(at(40), rules(9)).acquire, ["t0"], "its time has come");
    }

    #[test]
    fn every_change_that_could_matter_ends_a_plan_to_do_nothing() {
        let changes: [(&str, Change); 12] = [
            ("targets", |book| book.set_targets(Targets::default(), at(2))),
            ("a target", |book| book.set_target("t0", None, at(2))),
            ("nodes", |book| book.set_nodes(vec![seen("c")], at(2))),
            ("a node left", |book| book.left("b", at(2))),
            ("owners", |book| book.set_owners(Vec::new(), at(2))),
            ("a grant", |book| book.granted("t0", "b")),
            ("an end", |book| assert!(!book.ended("t0", "b", End::Expired, at(2)))),
            ("a silent one is heard", |book| {
                book.silent.insert("b".to_owned());
                book.beat("b");
            }),
            ("taken", |book| book.took("t0", Arc::default(), at(2))),
            ("busy", |book| book.busy("t0", &held_by("b"), at(2), SEC)),
            ("at rest", |book| book.rest("t0", at(9))),
            ("given", |book| book.gave("t0", None, at(2), SEC)),
        ];
        for (what, change) in changes {
            let mut book = book(1, &["b"]);
            book.granted("t0", "b");
            book.plan(at(1), rules(9));
            assert_eq!(book.idle, Some(None), "{what}");
            change(&mut book);
            assert_eq!(book.idle, None, "{what}");
        }
    }

    #[test]
    fn an_event_that_came_before_the_answer_is_not_overwritten_by_it() {
        let mut book = book(1, &["b"]);
        book.took("t0", Arc::default(), at(1));
        book.granted("t0", "b");
        book.gave("t0", Some("b"), at(2), 10 * SEC);
        assert_eq!(book.others["t0"].until, None);
    }
}
