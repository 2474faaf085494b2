//! Real processes: holders that are stopped past their TTL or killed, and ones whose gate is lost.

use std::process::Command;
use std::time::Duration;

use tenure_keeper::{Guard, Keeper, Terms};
use tenure_lease::{Clock, Committed, Holder, Key, Mode, Op, Phase, Tick, Ttl};
use tenure_store::{BootClock, Store};
use tenure_testkit::{Process, RedisServer};

const LIMIT: Duration = Duration::from_secs(30);

fn holder(url: &str) -> Process {
    let mut command = Command::new(tenure_testkit::helper_bin("holder").unwrap());
    command.args([url, "tuner", "picture", "1000"]);
    Process::spawn(command).unwrap()
}

/// One reported turn of the holder.
#[derive(Debug)]
struct Turn {
    word: String,
    number: u64,
    /// The time right before it requested a permit.
    asked: Tick,
}

impl Turn {
    fn parse(line: &str) -> Self {
        let mut parts = line.split(' ');
        let mut part = || parts.next().unwrap_or_else(|| panic!("no turn: {line}"));
        let (word, number, asked) = (part(), part(), part());
        let asked = Tick::from_nanos(asked.parse().unwrap());
        Self { word: word.into(), number: number.parse().unwrap(), asked }
    }
}

/// Every turn up to the one that detected the loss.
fn turns_until_lost(process: &Process) -> Vec<Turn> {
    let mut turns = Vec::new();
    let lost = |line: &str| {
        let lost = line.starts_with("lost ");
        turns.extend((!lost).then(|| Turn::parse(line)));
        lost
    };
    process.wait_for_line(lost, LIMIT).unwrap();
    turns
}

/// The number of the write in the record.
async fn landed(store: &Store, record: &Key) -> u64 {
    let kept = store.get(record).await.unwrap().unwrap();
    let value = std::str::from_utf8(&kept.value).unwrap();
    value.strip_prefix("holder ").unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_stopped_past_its_ttl_gets_no_permit_and_writes_nothing_when_it_wakes() {
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let process = holder(&url);
    process.wait_for_line(|line| line.starts_with("wrote "), LIMIT).unwrap();
    process.pause().unwrap();

    // The next holder gets it once the stopped one's TTL is over, and leaves its mark.
    let store = Store::open(&url).await.unwrap();
    let keeper = Keeper::new(store.clone(), Holder::new("next").unwrap());
    let terms = Terms::new(Ttl::from_secs(10).unwrap());
    let (key, record) = (Key::new("tuner").unwrap(), Key::new("picture").unwrap());
    let guard = keeper.acquire(key, terms, LIMIT).await.unwrap();
    let last = landed(&store, &record).await;
    let fence = guard.permit(Duration::ZERO).unwrap().fence(Mode::Strict);
    let mine = [Op::Put { key: record.clone(), value: b"next".as_slice().into(), ttl: None }];
    let written = store.write_fenced(&fence, &mine).await.unwrap();
    let Committed::Written { revision } = written else { panic!("{written:?}") };

    let woken = BootClock.now();
    process.resume().unwrap();
    let turns = turns_until_lost(&process);
    process.wait(LIMIT).unwrap();
    // Its turns come one after the other: at most one was under way when it was stopped.
    let (before, after): (Vec<_>, Vec<_>) = turns.iter().partition(|turn| turn.asked < woken);
    assert!(after.iter().all(|turn| turn.word == "refused"), "it was permitted after it woke: {after:?}");
    let mut wrote = before.iter().filter(|turn| turn.word == "wrote");
    assert!(wrote.all(|turn| turn.number <= last), "it wrote after {last}: {before:?}");
    let unwritten = before.iter().filter(|turn| ["fenced", "failed"].contains(&turn.word.as_str()));
    assert!(unwritten.count() <= 1, "only the one under way met the end: {before:?}");
    let kept = store.get(&record).await.unwrap().unwrap();
    assert_eq!(
        (&*kept.value, kept.revision),
        (b"next".as_slice(), revision),
        "written after the next holder"
    );
    assert!(guard.state().is_exclusive());
    guard.release().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_holder_is_replaced_once_its_ttl_is_over() {
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let process = holder(&url);
    let held = process.wait_for_line(|line| line.starts_with("held "), LIMIT).unwrap();
    process.wait_for_line(|line| line.starts_with("wrote "), LIMIT).unwrap();
    process.kill9().unwrap();
    let store = Store::open(&url).await.unwrap();
    let keeper = Keeper::new(store.clone(), Holder::new("next").unwrap());
    let terms = Terms::new(Ttl::from_secs(10).unwrap());
    let key = Key::new("tuner").unwrap();
    let guard = keeper.acquire(key, terms, LIMIT).await.unwrap();
    assert!(format!("held {}", guard.generation()) > held, "{held}");
}

/// One reign over a slot: its index, its generation, and from when to when it was held.
fn slot_reign(line: &str) -> (u64, u64, [Tick; 2]) {
    let numbers: Vec<u64> = line.split(' ').skip(1).map(|number| number.parse().unwrap()).collect();
    let [index, generation, from, until] = numbers[..] else { panic!("no reign: {line}") };
    (index, generation, [from, until].map(Tick::from_nanos))
}

#[test]
fn callers_in_many_processes_never_share_a_slot() {
    const SLOTS: u64 = 3;
    const ROUNDS: usize = 8;
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let spawn = |_| {
        let mut command = Command::new(tenure_testkit::helper_bin("slot_user").unwrap());
        command.args([&url, "tuner", &SLOTS.to_string(), &ROUNDS.to_string()]);
        Process::spawn(command).unwrap()
    };
    let processes: Vec<_> = (0..6).map(spawn).collect();
    let mut reigns = Vec::new();
    for process in &processes {
        for _ in 0..ROUNDS {
            let line = process.wait_for_line(|line| line.starts_with("held "), LIMIT).unwrap();
            reigns.push(slot_reign(&line));
        }
        assert!(process.wait(LIMIT).unwrap().success());
    }
    reigns.sort_by_key(|(index, generation, _)| (*index, *generation));
    assert_eq!(reigns.len(), 6 * ROUNDS);
    for pair in reigns.windows(2) {
        let [(slot, generation, held), (next_slot, next_generation, next)] = pair else { unreachable!() };
        assert!(*next_slot < SLOTS, "{pair:?}");
        if slot == next_slot {
            assert!(generation < next_generation, "one generation, one holder: {pair:?}");
            assert!(held[1] <= next[0], "held at the same time: {pair:?}");
        }
    }
}

/// Polls a claim so often, and drops it.
async fn drop_after(polls: usize, claim: impl Future<Output = tenure_keeper::Result<Guard>>) {
    let mut claim = std::pin::pin!(claim);
    for _ in 0..polls {
        if futures_util::poll!(&mut claim).is_ready() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn claims_dropped_at_any_point_leave_nothing_held_on_redis() {
    let redis = RedisServer::start().unwrap();
    let store = Store::open(&format!("{}?quarantine_ms=0", redis.url())).await.unwrap();
    let keeper = Keeper::new(store.clone(), Holder::new("a").unwrap());
    let terms = || Terms::new(Ttl::from_secs(30).unwrap());
    let key = Key::new("k").unwrap();
    for polls in 0..60 {
        drop_after(polls, keeper.acquire(key.clone(), terms(), Duration::ZERO)).await;
        keeper.settled().await;
        let status = store.inspect(&key).await.unwrap();
        assert_eq!((status.phase, status.waiters), (Phase::Free, 0), "dropped after {polls} polls");
    }
    // The same in a queue, whose head leaves while the claim arrives, waits or is granted.
    let other = Keeper::new(store.clone(), Holder::new("b").unwrap());
    for polls in 0..60 {
        let first = other.acquire(key.clone(), terms(), LIMIT).await.unwrap();
        let waiting = drop_after(polls, keeper.acquire(key.clone(), terms(), LIMIT));
        let (_, released) = tokio::join!(waiting, first.release());
        released.unwrap();
        keeper.settled().await;
        let status = store.inspect(&key).await.unwrap();
        assert_eq!(
            (status.phase, status.waiters),
            (Phase::Free, 0),
            "dropped after {polls} polls in the queue"
        );
    }
}

/// When an act behind a gate was requested, and the deadline of its permit; none for any other line.
fn act(line: &str) -> Option<[Tick; 2]> {
    let (asked, deadline) = line.strip_prefix("worked ")?.split_once(' ')?;
    Some([asked, deadline].map(|nanos| Tick::from_nanos(nanos.parse().unwrap())))
}

/// Takes the store away from a process that works behind a gate. The process must end by itself, and must not report an
/// act past its deadline.
fn gated_process_ends(take_away: impl FnOnce(&RedisServer)) {
    const TTL: Duration = Duration::from_millis(3_000);
    let redis = RedisServer::start().unwrap();
    let url = format!("{}?quarantine_ms=0", redis.url());
    let mut command = Command::new(tenure_testkit::helper_bin("gated").unwrap());
    command.args([&url, "gate", &TTL.as_millis().to_string()]);
    let process = Process::spawn(command).unwrap();
    let first = process.wait_for_line(|line| line.starts_with("worked "), LIMIT).unwrap();
    take_away(&redis);
    // No renewal that leaves after this is confirmed.
    let gone = BootClock.now();
    assert_eq!(process.wait(LIMIT).unwrap().code(), Some(70));
    let mut acts = vec![act(&first).unwrap()];
    let all = |line: &str| {
        acts.extend(act(line));
        false
    };
    process.wait_for_line(all, LIMIT).unwrap_err();
    for [asked, deadline] in acts {
        assert!(asked < deadline, "it worked at {asked:?}, past {deadline:?}");
        assert!(
            deadline < gone + TTL,
            "{deadline:?} is more than the store promised, which was gone at {gone:?}"
        );
    }
}

#[test]
fn a_process_whose_gate_cannot_be_renewed_because_its_store_stands_still_ends_with_code_70() {
    gated_process_ends(|redis| redis.pause().unwrap());
}

#[test]
fn a_process_whose_gate_cannot_be_renewed_because_its_store_is_gone_ends_with_code_70() {
    gated_process_ends(|redis| redis.kill9().unwrap());
}
