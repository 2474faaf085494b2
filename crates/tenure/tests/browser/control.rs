//! The control page: one client has control, others watch, and a lost client releases the device.

use serde_json::{Value, json};
use tenure_testkit::{Chromium, ColourScheme, wait};

use crate::LIMIT;
use crate::console::{Console, hook, unauthenticated};
use crate::screenshots::take;
use crate::up::Up;

fn lease_state(name: &str) -> String {
    format!("[data-test=hold][data-state={name}]")
}

/// Signs in with the administrator's token and opens the page.
fn open(chromium: &Chromium, up: &Up) -> Console {
    let console = Console::open(chromium, &up.url);
    console.sees_element(&hook("login"));
    console.sign_in(&up.token);
    console.wait_until_live();
    console.navigate(&format!("{}/control.html", up.url)).unwrap();
    console.wait_until_live();
    console.sees("document.querySelectorAll('[data-test=effects] button').length >= 12");
    console
}

fn status(up: &Up) -> Value {
    up.http("GET", "/api/v1/device/status", None).1["data"].clone()
}

/// The countdown in seconds.
fn countdown(console: &Console) -> f64 {
    let text = console.evaluate("document.querySelector('[data-test=seconds]').textContent").unwrap();
    text.as_str().unwrap().parse().unwrap_or(0.0)
}

#[test]
fn one_page_has_control_the_other_watches_and_a_killed_browser_releases_the_device() {
    let up = Up::with_control();
    let (first, second) = (Chromium::start().unwrap(), Chromium::start().unwrap());
    let driver = open(&first, &up);
    driver.sees_element(&lease_state("free"));
    driver.click(&hook("take")).unwrap();
    driver.sees_element(&lease_state("mine"));
    let watcher = open(&second, &up);
    watcher.sees_element(&lease_state("locked"));
    watcher.sees_words(&hook("headline"), "has control");
    watcher.sees("document.querySelector('[data-test=controls]').disabled && document.querySelector('[data-test=take]').disabled");
    // Heartbeats reset the countdown. Between them it decreases without leaving its range.
    let mut seen = Vec::new();
    wait::until("the countdown moves", LIMIT, || {
        let now = countdown(&watcher);
        assert!((0.0..=60.0).contains(&now), "{now}");
        seen.push((now * 10.0) as i64);
        seen.windows(2).any(|two| two[1] < two[0]) && seen.windows(2).any(|two| two[1] > two[0])
    })
    .unwrap();
    driver.sees_element(&lease_state("mine"));
    driver.click("[data-test=effects] button:nth-child(4)").unwrap();
    watcher.sees_words(&hook("shown"), "Fire");
    // The page records when the device becomes free, on its own clock. The lease would last a minute.
    watcher
        .evaluate(
            "const hold = document.querySelector('[data-test=hold]');
             new MutationObserver(() => { if (hold.dataset.state === 'free') window.freeAt ??= performance.now(); })
               .observe(hold, { attributes: true });
             window.killedAt = performance.now(); 0",
        )
        .unwrap();
    first.kill9().unwrap();
    watcher.sees_element(&lease_state("free"));
    let took = watcher.evaluate("window.freeAt - window.killedAt").unwrap().as_f64().unwrap();
    // Takes milliseconds on an idle machine. The bound suits a loaded one, and is a third of the TTL.
    assert!(took < 20_000.0, "freed after {took} ms");
    watcher.sees("!document.querySelector('[data-test=controls]').disabled");
    watcher.click(&hook("take")).unwrap();
    watcher.sees_element(&lease_state("mine"));
    watcher.click(&hook("give")).unwrap();
    watcher.sees_element(&lease_state("free"));
    watcher.is_calm_but(unauthenticated);
}

#[test]
fn the_page_changes_the_device_saves_presets_and_streams_the_drawing() {
    let up = Up::with_control();
    let chromium = Chromium::start().unwrap();
    let page = open(&chromium, &up);
    page.click("[data-test=palettes] button:nth-child(3)").unwrap();
    page.evaluate("const slider = document.querySelector('[data-test=slider-brightness]'); slider.value = 42; slider.dispatchEvent(new Event('input', { bubbles: true })); 0")
        .unwrap();
    wait::until("the device follows", LIMIT, || {
        let state = &status(&up)["state"];
        state["paletteId"] == 2 && state["parameters"]["brightness"] == 42
    })
    .unwrap();
    page.fill(&hook("preset-name"), "reading light").unwrap();
    page.click(&hook("save")).unwrap();
    page.sees_words(&hook("presets"), "reading light");
    page.click(&hook("take")).unwrap();
    page.sees_element(&lease_state("mine"));
    page.click(&hook("stream")).unwrap();
    // Five seconds of frames on a fast machine.
    wait::until("600 frames arrive", LIMIT, || {
        status(&up)["renderCounters"]["framesRx"].as_u64() > Some(600)
    })
    .unwrap();
    assert_eq!(status(&up)["renderStream"]["targetFps"], 120);
    assert!(status(&up)["renderCounters"]["framesRendered"].as_u64() > Some(20));
    page.evaluate(
        "const pad = document.querySelector('[data-test=pad]'), box = pad.getBoundingClientRect();
         const at = (kind, x) => pad.dispatchEvent(new PointerEvent(kind, { pointerId: 1, clientX: box.left + x, clientY: box.top + 20, bubbles: true }));
         pad.setPointerCapture = () => {}; at('pointerdown', 20); at('pointermove', box.width - 20); 0",
    )
    .unwrap();
    let lit = "(() => {
        const copy = Object.assign(document.createElement('canvas'), { width: 64, height: 16 }).getContext('2d', { willReadFrequently: true });
        copy.drawImage(document.querySelector('[data-test=strip]'), 0, 0, 64, 16);
        return copy.getImageData(0, 0, 64, 16).data.reduce((sum, value, i) => (i % 4 === 3 ? sum : sum + value), 0);
    })()";
    page.sees(&format!("{lit} > 0"));
    let counters = status(&up)["renderCounters"].clone();
    assert_eq!((&counters["framesInvalid"], &counters["framesBlockedLease"]), (&json!(0), &json!(0)));
    page.click(&hook("stream")).unwrap();
    page.sees_words(&hook("sent"), "user stop");
    page.is_calm_but(unauthenticated);
}

#[test]
fn the_control_page_has_screenshots() {
    let up = Up::with_control();
    let chromium = Chromium::start().unwrap();
    let page = open(&chromium, &up);
    for (effect, palette, name) in [(3, 1, "Fireplace"), (8, 5, "Northern lights"), (5, 10, "Night train")] {
        for (path, body) in [
            ("/api/v1/effects/set", json!({ "effectId": effect })),
            ("/api/v1/parameters", json!({ "paletteId": palette, "brightness": 230 })),
            ("/api/v1/presets", json!({ "name": name })),
        ] {
            assert_eq!(up.http("POST", path, Some(&body)).0, 200, "{path}");
        }
    }
    for (path, body) in [
        ("/api/v1/effects/set", json!({ "effectId": 1 })),
        ("/api/v1/parameters", json!({ "paletteId": 0, "brightness": 255, "complexity": 128 })),
        ("/api/v1/shows/pause", json!({})),
        // A fixed position, so that screenshots differ only if the page does.
        ("/api/v1/shows/seek", json!({ "positionMs": 0 })),
    ] {
        assert_eq!(up.http("POST", path, Some(&body)).0, 200, "{path}");
    }
    page.sees_words(&hook("shown"), "Gradient");
    page.sees_words(&hook("presets"), "Night train");
    page.click(&hook("take")).unwrap();
    page.sees_element(&lease_state("mine"));
    page.sees_words(&hook("pace"), "fps");
    page.colour_scheme(ColourScheme::Light).unwrap();
    page.screen(1120, 900, 1.0, false).unwrap();
    take(&page, "control.png");
    page.colour_scheme(ColourScheme::Dark).unwrap();
    take(&page, "control-dark.png");
    page.screen(390, 844, 1.5, true).unwrap();
    page.evaluate("scrollTo(0, 0)").unwrap();
    let wide = page.evaluate("document.documentElement.scrollWidth <= 390").unwrap();
    assert_eq!(wide, json!(true), "no horizontal scrolling on a phone");
    take(&page, "control-phone.png");
    page.is_calm_but(unauthenticated);
}
