//! The pictures of `tenure meet bot` in a real browser.

use std::process::Command;
use std::time::Duration;

use serde_json::json;
use tenure_testkit::{Chromium, Process};

use crate::console::unauthenticated;
use crate::media::counts;
use crate::person::{Person, tile};
use crate::up::Up;

const LIMIT: Duration = Duration::from_secs(90);

/// How many different colours a participant's picture has, of those in a coarse copy.
fn colours(id: &str) -> String {
    format!(
        "(() => {{ const copy = Object.assign(document.createElement('canvas'), {{ width: 32, height: 18 }}).getContext('2d');
           const shown = document.querySelector({});
           if (!shown) return 0;
           copy.drawImage(shown, 0, 0, 32, 18);
           const data = copy.getImageData(0, 0, 32, 18).data, seen = new Set();
           for (let at = 0; at < data.length; at += 4) seen.add([data[at] >> 6, data[at + 1] >> 6, data[at + 2] >> 6].join());
           return seen.size; }})()",
        json!(tile(id, " [data-test=picture]"))
    )
}

#[test]
fn a_page_shows_the_moving_picture_of_a_bot_and_plays_its_tone() {
    let (up, _proxy) = Up::with_meetings();
    let chromium = Chromium::builder().camera().start().unwrap();
    let (ada, link) = Person::host(&chromium, &up);
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    command.args(["meet", "bot", "--meeting", &link, "--url", &up.url, "--api-token", &up.token]);
    let bot = Process::spawn(command).unwrap();
    let other = "document.querySelector('[data-test=participant]:not([data-own])')?.dataset.id";
    let id = ada.wait_for(other, LIMIT).unwrap().as_str().unwrap().to_owned();
    ada.waits_for(&tile(&id, " [data-test=picture]"));
    ada.waits(&format!("{} > 8", colours(&id)));
    counts(&ada, &format!("stats.pictures['{id}/2']?.shown > 40"));
    counts(&ada, &format!("stats.voices['{id}/1']?.packets > 50 && stats.loudness > 0.005"));
    bot.terminate().unwrap();
    assert!(bot.wait(LIMIT).unwrap().success());
    ada.waits(&format!("!document.querySelector({})", json!(tile(&id, ""))));
    ada.is_calm_but(unauthenticated);
}
