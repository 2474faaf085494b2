//! The page's media in a real browser, with fake devices and a handler inside the page: pictures, voices and a handler that
//! falls silent.

use std::time::Duration;

use serde_json::{Value, json};
use tenure_testkit::{Chromium, Page};

use crate::harness::Harness;

/// How long anything that must happen may take on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Two participants: Ada sends the fake camera and the fake microphone, Bob shows them on `canvas`.
const TWO: &str = "(async () => {
  const [{ Loopback }, { MediaEngine }] = await Promise.all([import('/loopback.js'), import('/mediaengine.js')]);
  window.handler = new Loopback();
  handler.install();
  const engine = (name) => {
    const one = new MediaEngine(() => {});
    const server = (host, role) => ({ url: `https://${host}/${name}`, hashes: [], grant: new TextEncoder().encode(name), role });
    one.setServers([server('a', 1), server('b', 2)]);
    return one;
  };
  window.ada = engine('ada');
  window.bob = engine('bob');
  window.devices = await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 360, frameRate: 15 }, audio: true });
  window.context = new AudioContext({ sampleRate: 48000 });
  await context.audioWorklet.addModule('/audioworklet.js');
  const attach = (name, options) => {
    const node = new AudioWorkletNode(context, name, options), { port1, port2 } = new MessageChannel();
    node.port.postMessage({ port: port1 }, [port1]);
    return [node, port2];
  };
  const [playout, speakers] = attach('playout', { numberOfInputs: 0, outputChannelCount: [2] });
  playout.connect(context.destination);
  bob.setSpeakers(speakers);
  const [capture, microphone] = attach('capture', { numberOfOutputs: 0, channelCount: 1, channelCountMode: 'explicit' });
  context.createMediaStreamSource(new MediaStream(devices.getAudioTracks())).connect(capture);
  ada.setSound('audio', microphone);
  ada.setPicture('video', new MediaStreamTrackProcessor({ track: devices.getVideoTracks()[0] }).readable);
  window.canvas = new OffscreenCanvas(16, 9);
  window.show = () => bob.watch([{ participant: 'ada', stream: '2', screen: false, rendition: 1, priority: 100, canvas }]);
  show();
  window.picture = () => bob.stats().pictures['ada/2'] ?? {};
  window.voice = () => bob.stats().voices['ada/1'] ?? {};
  window.pixels = () => canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
})()";

fn two() -> (Page, Chromium, Harness) {
    let harness = Harness::open();
    let chromium = Chromium::builder().camera().start().unwrap();
    let page = chromium.open(&format!("{}/favicon.svg", harness.url)).unwrap();
    page.evaluate(TWO).unwrap();
    (page, chromium, harness)
}

fn waits(page: &Page, condition: &str) {
    page.wait_for(condition, LIMIT).unwrap();
}

#[test]
fn the_fake_camera_and_its_beeps_reach_another_participant() {
    let (page, _chromium, _harness) = two();
    waits(&page, "picture().shown > 20");
    waits(&page, "voice().packets > 100");
    // The picture of the fake camera is green, has the size that was sent, and moves.
    let green = "(() => { const data = pixels(); let green = 0;
        for (let at = 0; at < data.length; at += 4) if (data[at + 1] > 100 && data[at] < 100 && data[at + 2] < 100) green += 4;
        return green / data.length; })()";
    assert!(page.evaluate(green).unwrap().as_f64().unwrap() > 0.5, "it is not green");
    assert_eq!(page.evaluate("[canvas.width, canvas.height]").unwrap(), json!([640, 360]));
    page.evaluate("window.before = pixels().slice(); 0").unwrap();
    waits(&page, "pixels().some((value, at) => Math.abs(value - before[at]) > 60)");
    // The voice is heard, and the lips are with it.
    waits(&page, "bob.stats().loudness > 0.01");
    waits(&page, "picture().skew !== null && Math.abs(picture().skew) <= 80");
    // Doubles of both sessions are dropped, and a picture that is not shown is not sent.
    assert_eq!(page.evaluate("voice().lost").unwrap(), 0);
    page.evaluate("bob.watch([]); 0").unwrap();
    waits(
        &page,
        "handler.sessions.every((one) => one.participant !== 'bob' || one.subscriptions.length === 1)",
    );
    waits(&page, "handler.seen.reports > 1");
}

#[test]
fn the_standby_session_takes_over_when_the_first_falls_silent() {
    let (page, _chromium, _harness) = two();
    waits(&page, "picture().shown > 20");
    let hellos = page.evaluate("handler.seen.hellos.map(([name, standby]) => `${name} ${standby}`).sort()");
    assert_eq!(hellos.unwrap(), json!(["ada false", "ada true", "bob false", "bob true"]));
    page.evaluate(
        "for (const one of handler.sessions) if (one.url.startsWith('https://a/')) one.silent = true;
         window.shown = picture().shown; window.heard = voice().packets; 0",
    )
    .unwrap();
    waits(&page, "handler.seen.activated === 2");
    waits(&page, "picture().shown > shown + 20 && voice().packets > heard + 50");
    let active = page.evaluate("bob.stats().sessions.find((one) => one.active).url").unwrap();
    assert_eq!(active, "https://b/bob");
    // Groups go on rising on the other session.
    let groups: Vec<Value> = page
        .evaluate("handler.seen.groups.filter((one) => one.rendition === 1).map((one) => one.group)")
        .unwrap()
        .as_array()
        .unwrap()
        .clone();
    assert!(groups.windows(2).all(|two| two[0].as_u64() < two[1].as_u64()), "{groups:?}");
}

#[test]
fn a_mute_of_the_handler_stops_the_sender() {
    let (page, _chromium, _harness) = two();
    waits(&page, "picture().shown > 5 && voice().packets > 5");
    page.evaluate(
        "for (const one of handler.sessions) if (one.participant === 'ada') handler.tell(one, { mute: { audio_muted: true, video_muted: true, mute_epoch: 2 } }); 0",
    )
    .unwrap();
    waits(&page, "ada.stats().muted.audio_muted");
    page.evaluate("window.sent = [handler.seen.datagrams, ada.stats().sources.video.captured]; 0").unwrap();
    waits(&page, "ada.stats().sources.video.captured > sent[1] + 15");
    let sent = page.evaluate("[handler.seen.datagrams - sent[0], ada.stats().sources.video.renditions.every((one) => one.frames >= 0)]");
    assert_eq!(sent.unwrap(), json!([0, true]));
}

#[test]
fn a_microphone_that_is_turned_on_again_and_another_camera_are_heard_and_seen_at_once() {
    let (page, _chromium, _harness) = two();
    waits(&page, "voice().packets > 60 && picture().shown > 10");
    // Both begin to count anew: the microphone its packets, the camera its timestamps.
    page.evaluate(
        "(async () => {
           const capture = new AudioWorkletNode(context, 'capture', { numberOfOutputs: 0, channelCount: 1, channelCountMode: 'explicit' });
           const { port1, port2 } = new MessageChannel();
           capture.port.postMessage({ port: port1 }, [port1]);
           context.createMediaStreamSource(new MediaStream(devices.getAudioTracks())).connect(capture);
           window.heard = 0;
           const { play } = bob.voices.get('ada/1');
           bob.voices.get('ada/1').play = (packet) => { window.heard++; play(packet); };
           ada.setSound('audio', port2);
           devices.getVideoTracks()[0].stop();
           const [track] = (await navigator.mediaDevices.getUserMedia({ video: { width: 640, height: 360, frameRate: 15 } })).getVideoTracks();
           window.shownBefore = picture().shown;
           ada.setPicture('video', new MediaStreamTrackProcessor({ track }).readable);
         })()",
    )
    .unwrap();
    // Within a few packets of the new beginning, not after as many as were sent before.
    waits(&page, "ada.stats().sources.audio.sequence > 20");
    let (sent, heard) = (
        page.evaluate("ada.stats().sources.audio.sequence").unwrap().as_u64().unwrap(),
        page.evaluate("heard").unwrap().as_u64().unwrap(),
    );
    assert!(heard > 0, "{heard} of {sent} packets");
    waits(&page, "picture().shown > shownBefore + 10");
}
