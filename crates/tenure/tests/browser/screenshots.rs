//! The screenshots of the documentation. They go to cargo's folder for such files; `cargo xtask screenshots` takes them
//! from there to `docs/images`.

use std::fs;
use std::path::Path;

use serde_json::json;
use tenure_testkit::{Chromium, ColourScheme, wait};

use crate::LIMIT;
use crate::console::{Console, hook, row};
use crate::up::{Grant, LONG, Up};

/// Each is part of every clone.
const MAX_BYTES: usize = 200_000;

pub(crate) fn take(console: &Console, name: &str) {
    // What flashes once must have done so; what pulses may be anywhere.
    console.sees(
        "document.getAnimations().every((one) => one.effect.getComputedTiming().iterations === Infinity)",
    );
    let screenshot = console.screenshot().unwrap();
    assert!(screenshot.len() < MAX_BYTES, "{name} has {} bytes", screenshot.len());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("screenshots");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), screenshot).unwrap();
}

/// Lets a reign last: until `ms` of its time are gone.
fn reign_for(up: &Up, grant: &Grant, ttl: u64, ms: u64) {
    wait::until("the reign is old enough", LIMIT, || {
        up.one(&grant.key)["remaining_ms"].as_u64().is_none_or(|left| left <= ttl - ms)
    })
    .unwrap();
}

/// A key with a past: every common way for a reign to end.
fn past(up: &Up, key: &str) -> Grant {
    let ttl = 60_000;
    let first = up.acquire(key, "node-a", ttl);
    reign_for(up, &first, ttl, 1_800);
    let successor = up.park(key, "node-b", 1_500);
    up.transfer(&first, "node-b");
    successor.join().unwrap().unwrap();
    wait::until("it expired", LIMIT, || up.one(key)["state"] == "free").unwrap();
    let third = up.acquire(key, "node-a", ttl);
    reign_for(up, &third, ttl, 900);
    up.release(&third);
    let fourth = up.acquire(key, "node-c", ttl);
    reign_for(up, &fourth, ttl, 1_200);
    up.revoke(key, &fourth.generation, 700);
    wait::until("the delay is over", LIMIT, || up.one(key)["state"] == "free").unwrap();
    let meta = json!({ "service": "recorder", "channel": "news-hd", "pid": 4711 }).to_string();
    let last = json!({ "key": key, "holder": "node-b", "ttl_ms": ttl, "meta": meta });
    let last = up.claim(&last);
    reign_for(up, &last, ttl, 1_000);
    last
}

/// A busy afternoon: reigns, and for how long each is renewed.
fn scene(up: &Up) -> Vec<(Grant, u64)> {
    let mut grants = vec![(past(up, "tuner/3"), 60_000)];
    for (key, holder, ttl) in [
        ("backup/nightly", "backup-01", 900_000),
        ("camera/entrance", "edge-7", 45_000),
        ("camera/garage", "edge-2", 60_000),
        ("leader/scheduler", "sched-1", 50_000),
        ("tuner/0", "node-a", 60_000),
    ] {
        grants.push((up.acquire(key, holder, LONG), ttl));
    }
    grants
}

#[test]
fn screenshot_of_the_console() {
    let up = Up::start();
    let chromium = Chromium::start().unwrap();
    let grants = scene(&up);
    // Short times look alive, but they begin only when the browser is there.
    for (grant, ttl) in &grants {
        assert_eq!(up.renew(grant, *ttl), "renewed");
    }
    let console = Console::signed_in(&chromium, &up);
    console.colour_scheme(ColourScheme::Light).unwrap();
    console.screen(1120, 700, 1.5, false).unwrap();
    console.sees_element(&row("tuner/3"));
    let waiters =
        [up.park("leader/scheduler", "sched-2", 30_000), up.park("leader/scheduler", "sched-3", 30_000)];
    up.acquire("tuner/1", "node-c", 60_000);
    let broken = up.one("camera/garage")["generation"].as_str().unwrap().to_owned();
    up.revoke("camera/garage", &broken, 50_000);
    console.sees("document.querySelectorAll('[data-test=row]').length === 7");
    console.sees_words(&format!("{} [data-test=waiters]", row("leader/scheduler")), "2");
    console.sees_words(&hook("feed"), "revoked");
    take(&console, "console-list.png");
    console.colour_scheme(ColourScheme::Dark).unwrap();
    take(&console, "console-dark.png");

    console.colour_scheme(ColourScheme::Light).unwrap();
    console.screen(1120, 1060, 1.5, false).unwrap();
    console.open_lease("tuner/3");
    take(&console, "console-lease.png");
    console.screen(390, 780, 2.0, true).unwrap();
    console.click(&hook("back")).unwrap();
    console.sees_element(&row("tuner/0"));
    console.evaluate("scrollTo(0, 0)").unwrap();
    take(&console, "console-phone.png");
    console.is_calm();
    drop((up, waiters));
}
