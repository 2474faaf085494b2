//! What the page decides about media, in a real browser: pure functions with tables.

use serde_json::{Value, json};
use tenure_testkit::{Chromium, Page};

use crate::harness::Harness;

/// Evaluates `script` with the exports of a module as `it`.
fn with(module: &str, script: &str) -> Value {
    let harness = Harness::open();
    let chromium = Chromium::start().unwrap();
    let page: Page = chromium.open(&format!("{}/favicon.svg", harness.url)).unwrap();
    page.evaluate(&format!("import('/{module}').then((it) => {{ {script} }})")).unwrap()
}

#[test]
fn a_page_of_the_grid_holds_twenty_five_tiles_on_a_laptop_and_fewer_on_a_phone() {
    let sizes = with(
        "meetlayout.js",
        "const inside = (count, width, height) => { const grid = it.fitGrid(count, width, height);
           return grid.columns * grid.width + 8 * (grid.columns - 1) <= width && grid.rows * grid.height + 8 * (grid.rows - 1) <= height && grid.columns * grid.rows >= count; };
         const all = [[920, 660], [1256, 660], [374, 600], [200, 900], [1000, 200]];
         return [it.pageSize(920, 660), it.pageSize(374, 600) < 25, all.every(([width, height]) => [1, 2, 3, 5, 12, 25].every((count) => inside(count, width, height)))];",
    );
    assert_eq!(sizes, json!([25, true, true]));
}

#[test]
fn what_is_pinned_or_shared_is_large_and_the_speaker_only_in_the_speaker_view() {
    let arranged = with(
        "meetlayout.js",
        "const base = { ids: ['me', 'a', 'b'], screens: [], view: 'grid', pinned: null, speaker: 'b', me: 'me', page: 0, size: 25 };
         const large = (changes) => it.arrange({ ...base, ...changes }).large;
         const paged = it.arrange({ ...base, page: 9, size: 2 });
         return [large({}), large({ view: 'speaker' }), large({ view: 'speaker', speaker: 'me' }), large({ pinned: 'a' }), large({ pinned: 'gone' }),
           large({ screens: ['screen:a'] }), large({ screens: ['screen:me'] }), large({ screens: ['screen:a', 'screen:me'] }), large({ screens: ['screen:a'], pinned: 'b' }), large({ view: 'speaker', ids: ['me'] }), paged.page, paged.tiles];",
    );
    let expected = json!([null, "b", "a", "a", null, "screen:a", null, "screen:a", "b", null, 1, ["b"]]);
    assert_eq!(arranged, expected);
}

#[test]
fn pressure_takes_bitrate_first_and_then_renditions_and_gives_them_back_slowly() {
    let states = with(
        "mediarate.js",
        "let state = it.calm(); const seen = [];
         const step = (load, times) => { for (let n = 0; n < times; n++) state = it.adapt(state, load, 3); seen.push([Number(state.scale.toFixed(2)), Math.min(state.renditions, 3)]); };
         step({ queue: 0, lag: 0 }, 3); step({ queue: 3, lag: 0 }, 1); step({ queue: 0, lag: 250 }, 3); step({ queue: 3, lag: 0 }, 1); step({ queue: 3, lag: 0 }, 40);
         step({ queue: 0, lag: 0 }, 100);
         return seen;",
    );
    assert_eq!(states, json!([[1, 3], [0.8, 3], [0.41, 3], [1, 2], [0.41, 1], [1, 3]]));
}

#[test]
fn timestamps_of_tracks_move_to_the_earliest_arrival_and_never_back() {
    let times = with(
        "mediaclock.js",
        "const clock = new it.TrackClock();
         return [clock.stamp(0, 1000), clock.stamp(1000, 2500), clock.stamp(2000, 2900), clock.stamp(2001, 9000), clock.stamp(1, 9001)];",
    );
    assert_eq!(times, json!([1_000, 2_000, 2_900, 2_901, 2_902]));
}

#[test]
fn packets_come_out_in_order_once_and_a_lost_one_is_taken_from_the_next() {
    let order = with(
        "mediasound.js",
        "const packet = (sequence, redundant = []) => ({ sequence, timestamp: sequence * 20000, redundant: Uint8Array.from(redundant), payload: Uint8Array.of(sequence) });
         const order = new it.PacketOrder(), out = (one) => order.push(one).map((two) => two.sequence);
         return [out(packet(1)), out(packet(3)), out(packet(2)), out(packet(2)), out(packet(5, [4])), out(packet(7)), out(packet(8)), out(packet(9)), out(packet(10)), order.lost, out(packet(5000))];",
    );
    assert_eq!(order, json!([[1], [], [2, 3], [], [4, 5], [], [], [], [7, 8, 9, 10], 1, [5000]]));
}

/// Pushes and pulls samples: `send(sequence, timestamp)` and `play(milliseconds)`.
const VOICE: &str = "const voice = new it.JitterBuffer(), out = new Float32Array(48);
  const tone = (from) => Float32Array.from({ length: 960 }, (_, n) => Math.sin((from * 48 + n) / 20));
  let arrived = 0, loud = 0;
  const send = (sequence, timestamp = sequence * 20000, late = 0) => voice.push({ sequence, timestamp, samples: tone(timestamp / 1000), arrived: arrived + late });
  const play = (ms) => { for (let n = 0; n < ms; n++) { out.fill(0); voice.pull(out); arrived += 1; loud = Math.max(...out.map(Math.abs)); } return loud; };";

#[test]
fn a_steady_voice_is_heard_without_a_gap_and_knows_its_time() {
    let heard = with(
        "jitter.js",
        &format!(
            "{VOICE} for (let n = 0; n < 100; n++) {{ send(n); play(20); }}
             return [voice.counts.concealed, voice.counts.dry, voice.playing, Math.abs(voice.time - (2000 - voice.buffered / 48) * 1000) < 1, voice.buffered / 48 <= 45];"
        ),
    );
    assert_eq!(heard, json!([0, 0, true, true, true]));
}

#[test]
fn a_short_gap_is_concealed_and_counted_and_a_pause_of_the_voice_is_not() {
    let heard = with(
        "jitter.js",
        &format!(
            "{VOICE} for (let n = 0; n < 20; n++) {{ send(n); play(20); }}
             play(40);
             const hidden = play(10) > 0; send(22); const lost = voice.counts.concealed > 0;
             for (let n = 23; n < 40; n++) {{ send(n); play(20); }}
             const before = voice.counts.concealed;
             play(600); const silent = play(10); for (let n = 40; n < 46; n++) send(n, 1340000 + (n - 40) * 20000); play(20);
             return [hidden, lost, silent, voice.counts.concealed === before, voice.playing];"
        ),
    );
    assert_eq!(heard, json!([true, true, 0, true, true]));
}

#[test]
fn a_sender_whose_clock_is_faster_is_followed() {
    let heard = with(
        "jitter.js",
        &format!(
            "{VOICE} for (let n = 0; n < 1000; n++) {{ send(n); play(n % 4 === 0 ? 19 : 20); }}
             return [voice.counts.stretched > 10, voice.counts.dropped, voice.buffered / 48 < 80, voice.counts.concealed];"
        ),
    );
    assert_eq!(heard, json!([true, 0, true, 0]));
}

#[test]
fn a_browser_that_lacks_something_says_what_works() {
    let sentences = with(
        "meetsupport.js",
        "const count = () => it.missingParts().length, seen = [count()];
         delete globalThis.VideoEncoder; seen.push(it.missingParts().join().includes('cannot encode'));
         delete globalThis.VideoDecoder; seen.push(it.missingParts().join().includes('no WebCodecs'));
         delete globalThis.WebTransport; seen.push(count());
         return seen;",
    );
    assert_eq!(sentences, json!([0, true, true, 2]));
}
