//! The page's codec of media in a real browser, compared with `meet_wire::media`.

use bytes::Bytes;
use prost::Message as _;
use serde_json::{Value, json};
use tenure_meet_wire::media::audio::{AudioPacket, Datagram};
use tenure_meet_wire::media::group::{FrameFlags, FrameHeader, GroupDecoder, GroupHeader};
use tenure_meet_wire::media::message::{
    MediaEvent, MediaRequest, Publish, Rendition, RenditionsNeeded, media_event, media_request,
};
use tenure_meet_wire::media::{Alias, MediaError, audio, group, limits};
use tenure_meet_wire::signaling::{ErrorMessage, StreamType};
use tenure_testkit::{Chromium, Page};

use crate::harness::Harness;

const HELPERS: &str = "window.hex = (bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  window.unhex = (words) => Uint8Array.from(words.match(/../g) ?? [], (two) => parseInt(two, 16));
  window.attempt = (act) => { try { return act(); } catch (error) { return error.message; } };
  // Reads a stream in pieces of this size: its header and its frames, or why it is refused.
  window.read = (words, size) => attempt(() => {
    const reader = new wire.GroupReader(), bytes = unhex(words), frames = [];
    for (let at = 0; at < bytes.length; at += size) frames.push(...reader.push(bytes.slice(at, at + size)));
    reader.finish();
    return { ...reader.header, frames: frames.map((frame) => ({ ...frame, payload: hex(frame.payload) })) };
  });
  Promise.all([import('/mediawire.js'), import('/mediaschema.js'), import('/protobuf.js')])
    .then(([wire, { MESSAGES }, { Codec }]) => { window.wire = wire; window.codec = new Codec(MESSAGES); return true; })";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(words: &Value) -> Vec<u8> {
    let words = words.as_str().unwrap();
    (0..words.len()).step_by(2).map(|at| u8::from_str_radix(&words[at..at + 2], 16).unwrap()).collect()
}

struct Tab {
    page: Page,
    _chromium: Chromium,
    _harness: Harness,
}

impl Tab {
    fn open() -> Self {
        let harness = Harness::open();
        let chromium = Chromium::start().unwrap();
        let page = chromium.open(&format!("{}/favicon.svg", harness.url)).unwrap();
        page.evaluate(HELPERS).unwrap();
        Self { page, _chromium: chromium, _harness: harness }
    }

    fn evaluate(&self, script: &str) -> Value {
        self.page.evaluate(script).unwrap()
    }
}

/// A header and frames: of length, delta and flags.
fn stream(header: &GroupHeader, frames: &[(usize, u64, FrameFlags)]) -> Vec<u8> {
    let mut bytes = group::encode_header(header).unwrap().to_vec();
    for (len, delta_us, flags) in frames {
        let frame = FrameHeader { len: *len, delta_us: *delta_us, flags: *flags };
        bytes.extend_from_slice(&group::encode_frame_header(&frame).unwrap());
        bytes.extend((0..*len).map(|byte| byte as u8));
    }
    bytes
}

const KEY: FrameFlags = FrameFlags { key: true, discardable: false, temporal: 0 };
const LAYER: FrameFlags = FrameFlags { key: false, discardable: true, temporal: 2 };

fn header(alias: u64, timestamp_us: u64) -> GroupHeader {
    GroupHeader { alias: Alias::new(alias).unwrap(), rendition: 2, group: 7, timestamp_us }
}

#[test]
fn groups_read_the_same_in_the_page() {
    let tab = Tab::open();
    let frames = [(300, 0, KEY), (0, 33_333, LAYER), (70, 9_000_000, LAYER)];
    for (alias, timestamp) in [(1, 0), (300, 1 << 30), (65_535, (1 << 53) - 1 - 9_000_000)] {
        let bytes = stream(&header(alias, timestamp), &frames);
        for size in [1, 7, bytes.len()] {
            let read = tab.evaluate(&format!("read('{}', {size})", hex(&bytes)));
            assert_eq!(read["alias"], alias, "{read}");
            assert_eq!((&read["rendition"], &read["group"]), (&json!(2), &json!(7)));
            assert_eq!(read["frames"].as_array().unwrap().len(), 3);
            assert_eq!(read["frames"][0]["key"], true);
            assert_eq!(read["frames"][0]["payload"].as_str().unwrap().len(), 600);
            assert_eq!(read["frames"][2]["timestamp"], timestamp + 9_000_000);
            assert_eq!(
                (&read["frames"][2]["discardable"], &read["frames"][2]["temporal"]),
                (&json!(true), &json!(2))
            );
        }
    }
    // What the page writes, the handler reads.
    let written = tab.evaluate(
        "hex([...wire.groupHeader({ alias: 300, rendition: 1, group: 70, timestamp: 2 ** 40 }),
              ...wire.groupFrame({ delta: 0, key: true, payload: unhex('0102') }),
              ...wire.groupFrame({ delta: 66666, temporal: 1, payload: unhex('03') })])",
    );
    let mut decoder = GroupDecoder::default();
    decoder.push(&unhex(&written)).unwrap();
    let (first, second) = (decoder.next_frame().unwrap().unwrap(), decoder.next_frame().unwrap().unwrap());
    decoder.finish().unwrap();
    let read = decoder.header().unwrap();
    assert_eq!((read.alias.number(), read.rendition, read.group), (300, 1, 70));
    assert_eq!((read.timestamp_us, first.header.flags.key), (1 << 40, true));
    assert_eq!((second.header.delta_us, second.header.flags.temporal), (66_666, 1));
    assert_eq!((&first.payload[..], &second.payload[..]), (&[1, 2][..], &[3][..]));
}

/// Why the handler refuses a stream.
fn refusal(bytes: &[u8]) -> MediaError {
    let mut decoder = GroupDecoder::default();
    let read = |decoder: &mut GroupDecoder| {
        decoder.push(bytes)?;
        while decoder.next_frame()?.is_some() {}
        decoder.finish()
    };
    read(&mut decoder).unwrap_err()
}

#[test]
fn the_page_refuses_what_the_handler_refuses_for_the_same_reason() {
    let tab = Tab::open();
    let good = stream(&header(5, 10), &[(3, 0, KEY), (3, 5, LAYER)]);
    let mut bad: Vec<Vec<u8>> = (1..good.len()).map(|cut| good[..cut].to_vec()).collect();
    // The end of the first frame is the end of a shorter group.
    bad.retain(|bytes| bytes.len() != good.len() - 6);
    bad.push(stream(&header(5, 10), &[(3, 0, LAYER)]));
    bad.push(stream(&header(5, 10), &[(3, 5, KEY), (3, 10_000_006, LAYER)]));
    bad.push([&[1, 0, 0, 0, 0][..], &good[5..]].concat());
    bad.push([&[1, 1, 0x41, 0, 0, 0][..], &good[5..]].concat());
    bad.push([&group::encode_header(&header(5, 10)).unwrap()[..], &[0x80, 0x10, 0, 1, 0, 1]].concat());
    bad.push(vec![1, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
    for bytes in bad {
        let read = tab.evaluate(&format!("read('{}', 64)", hex(&bytes)));
        assert_eq!(read, json!(refusal(&bytes).to_string()), "{}", hex(&bytes));
    }
    let unknown = tab.evaluate("(() => { const reader = new wire.GroupReader(); reader.push(unhex('0501')); return reader.unknown; })()");
    assert_eq!(unknown, 5);
}

fn packet(sequence: u64, redundant: &'static [u8]) -> AudioPacket {
    AudioPacket {
        alias: Alias::new(5).unwrap(),
        sequence,
        timestamp_us: 1 << 45,
        level: 30,
        redundant: Bytes::from_static(redundant),
        payload: Bytes::from_static(&[3, 4, 5]),
    }
}

#[test]
fn datagrams_read_the_same_on_both_sides() {
    let tab = Tab::open();
    for (sequence, redundant) in [(0, &[][..]), (70, &[1, 2]), ((1 << 53) - 1, &[9])] {
        let packet = packet(sequence, redundant);
        let bytes = packet.encode().unwrap();
        let written = tab.evaluate(&format!(
            "(() => {{ const read = wire.readDatagram(unhex('{}')); return hex(wire.audioDatagram(read)); }})()",
            hex(&bytes)
        ));
        assert_eq!(unhex(&written), bytes);
        assert_eq!(audio::decode(&unhex(&written).into()).unwrap(), Datagram::Audio(packet));
    }
    assert_eq!(tab.evaluate("wire.readDatagram(unhex('03'))"), json!({ "keepAlive": true }));
    assert_eq!(tab.evaluate("wire.readDatagram(unhex('0900'))"), json!({ "unknown": 9 }));
    let good = packet(70, &[1, 2]).encode().unwrap();
    let mut bad: Vec<Bytes> = (0..good.len() - 3).map(|cut| good.slice(..cut)).collect();
    bad.extend([
        Bytes::from_static(&[3, 0]),
        Bytes::from_static(&[2, 0, 0, 0, 0, 0]),
        Bytes::from_static(&[2, 1, 0, 0, 128, 0]),
        vec![2; limits::DATAGRAM + 1].into(),
    ]);
    for bytes in bad {
        let read = tab.evaluate(&format!("attempt(() => wire.readDatagram(unhex('{}')))", hex(&bytes)));
        assert_eq!(read, json!(audio::decode(&bytes).unwrap_err().to_string()), "{}", hex(&bytes));
    }
}

#[test]
fn control_messages_read_the_same_on_both_sides() {
    let tab = Tab::open();
    let written = tab.evaluate(
        "hex(codec.frame('MediaRequest', { publish: { alias: 1, stream_id: '2', type: 2, codec: 'avc1.42E01F', temporal_layers: 1,
           renditions: [{ index: 0, width: 320, height: 180, max_bitrate: 150000, max_fps: 15 }], incarnation: 1800000000000 }, seq: 7 }))",
    );
    let rendition = Rendition { index: 0, width: 320, height: 180, max_bitrate: 150_000, max_fps: 15 };
    let publish = Publish {
        alias: 1,
        stream_id: "2".into(),
        r#type: StreamType::Video.into(),
        codec: "avc1.42E01F".into(),
        renditions: vec![rendition],
        temporal_layers: 1,
        incarnation: 1_800_000_000_000,
        ..Publish::default()
    };
    let request = MediaRequest { payload: Some(media_request::Payload::Publish(publish)), seq: 7 };
    assert_eq!(MediaRequest::decode(&unhex(&written)[4..]).unwrap(), request);
    // Numbers of a repeated field are packed, and a message of another package is known.
    let needed = RenditionsNeeded { alias: 3, renditions: vec![0, 2, 300], temporal: 1 };
    let error = ErrorMessage { code: 10, message: "slow".into(), ..ErrorMessage::default() };
    for (payload, path, expected) in [
        (media_event::Payload::RenditionsNeeded(needed), "/renditions_needed/renditions", json!([0, 2, 300])),
        (media_event::Payload::Error(error), "/error/message", json!("slow")),
    ] {
        let bytes = MediaEvent { payload: Some(payload), seq: 0 }.encode_to_vec();
        let read = tab.evaluate(&format!("codec.decode('MediaEvent', unhex('{}'))", hex(&bytes)));
        assert_eq!(read.pointer(path), Some(&expected), "{read}");
    }
}
