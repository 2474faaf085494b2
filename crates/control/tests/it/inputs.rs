//! Local inputs: a serial port, simulated by a pseudo-terminal, and a rotary encoder, simulated by a pipe.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use serde_json::{Value, json};
use tenure_control::{COMMANDS, Class, InputSource, Options, Ownership, SerialPort, allowed};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::fixture::{Fixture, eventually, long_ttl, within};

/// The remote end of a serial port.
struct SerialPeer {
    reader: BufReader<tokio_serial::SerialStream>,
    _keep: tokio_serial::SerialStream,
}

impl SerialPeer {
    /// Opens a pseudo-terminal; returns it with the path of its other end.
    fn new() -> (Self, String) {
        use tokio_serial::SerialPort;
        let (far, near) = tokio_serial::SerialStream::pair().unwrap();
        let path = near.name().unwrap();
        (Self { reader: BufReader::new(far), _keep: near }, path)
    }

    async fn ask(&mut self, line: &str) -> String {
        AsyncWriteExt::write_all(self.reader.get_mut(), format!("{line}\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        within(self.reader.read_line(&mut answer)).await.unwrap();
        answer.trim().to_owned()
    }

    async fn json(&mut self, message: Value) -> Value {
        serde_json::from_str(&self.ask(&message.to_string()).await).unwrap()
    }
}

#[tokio::test]
async fn serial_commands_always_read_and_change_only_without_a_lease() {
    let (mut line, path) = SerialPeer::new();
    let fixture =
        Fixture::start(Options { serial: vec![SerialPort { path, baud: 115_200 }], ..long_ttl() }).await;
    assert!(line.ask("status").await.starts_with("OK {"));
    assert!(line.ask("brightness 77").await.starts_with("OK "));
    assert_eq!(fixture.status().await["state"]["parameters"]["brightness"], 77);
    let answer = line.json(json!({ "type": "setEffect", "requestId": "s1", "effectId": 4 })).await;
    assert_eq!(
        (&answer["type"], &answer["requestId"], &answer["data"]["effectId"]),
        (&json!("setEffect"), &json!("s1"), &json!(4))
    );
    assert_eq!(line.json(json!({ "type": "device.getStatus" })).await["success"], true);
    for name in ["control.acquire", "control.release", "render.stream.start", "ledStream.subscribe"] {
        let answer = line.json(json!({ "type": name })).await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("unknown command type"), "{answer}");
    }
    assert!(line.ask("explode").await.contains("unknown command type"));
    assert!(line.ask("help").await.contains("brightness N"));
    assert!(line.ask("{broken").await.contains("INVALID_JSON"));
    assert!(line.ask(&"x".repeat(9_000)).await.contains("at most"));

    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    for text in ["brightness 3", "next", "off", "explode"] {
        let answer = line.ask(text).await;
        assert!(
            answer.contains("CONTROL_LOCKED") && answer.contains("command blocked by active control lease"),
            "{answer}"
        );
    }
    let answer = line.json(json!({ "type": "setPower", "on": false })).await;
    assert_eq!(answer["error"]["message"], "command blocked by active control lease");
    for text in ["status", "effects", "lease"] {
        assert!(line.ask(text).await.starts_with("OK "), "{text}");
    }
    let status = fixture.status().await;
    assert_eq!(status["controlCounters"]["blockedLocalSerialInputs"], 5);
    assert_eq!(
        (&status["state"]["parameters"]["brightness"], &status["state"]["power"]),
        (&json!(77), &json!(true))
    );
    drop(owner);
    eventually("serial commands are accepted again", async || {
        line.ask("brightness 5").await.starts_with("OK ")
    })
    .await;
    fixture.stop().await;
}

#[tokio::test]
async fn every_serial_command_obeys_the_matrix() {
    let (mut line, path) = SerialPeer::new();
    let fixture =
        Fixture::start(Options { serial: vec![SerialPort { path, baud: 115_200 }], ..long_ttl() }).await;
    let message =
        async |line: &mut SerialPeer, name: &str| line.json(json!({ "type": name })).await["error"].clone();
    let mut unknown = Vec::new();
    for command in COMMANDS.iter() {
        let error = message(&mut line, command.name).await;
        assert_ne!(error["code"], "CONTROL_LOCKED", "{}", command.name);
        // WebSocket commands are unknown here, and therefore mutating.
        if error["message"].as_str().is_some_and(|message| message.contains("unknown command type")) {
            unknown.push(command.name);
        }
    }
    for name in ["control.acquire", "control.heartbeat", "control.release", "render.stream.start"] {
        assert!(unknown.contains(&name), "{name}");
    }
    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    let mut blocked = 0;
    for command in COMMANDS.iter() {
        let class = if unknown.contains(&command.name) { Class::Mutate } else { command.class };
        let error = message(&mut line, command.name).await;
        let open = allowed(class, InputSource::Serial, Ownership::Owner);
        assert_eq!(error["code"] != "CONTROL_LOCKED", open, "{}: {error}", command.name);
        blocked += u64::from(!open);
    }
    assert_eq!(fixture.status().await["controlCounters"]["blockedLocalSerialInputs"], blocked);
    fixture.stop().await;
}

/// An input event of the Linux kernel.
fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let mut bytes = vec![0; 2 * size_of::<usize>()];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(value.to_ne_bytes());
    bytes
}

#[tokio::test]
async fn encoder_events_are_dropped_while_a_lease_is_active() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("event0");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    // Open for reading and writing, so that neither side blocks.
    let far: OwnedFd = rustix::fs::open(&path, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).unwrap();
    let mut far = File::from(far);
    let options = Options { encoder: vec![path.to_str().unwrap().to_owned()], ..long_ttl() };
    let fixture = Fixture::start(options).await;
    fixture.post("/api/v1/parameters", json!({ "brightness": 100 }), &[]).await;
    let brightness = async || fixture.status().await["state"]["parameters"]["brightness"].as_u64().unwrap();
    let turn = event(2, 7, 2);
    // In two parts, like a slow device.
    far.write_all(&turn[..5]).unwrap();
    far.write_all(&turn[5..]).unwrap();
    eventually("the brightness increased", async || brightness().await == 116).await;
    far.write_all(&[event(2, 8, -1), event(0, 0, 0), event(1, 0x100, 1), event(1, 0x100, 0)].concat())
        .unwrap();
    eventually("the brightness decreased", async || brightness().await == 108).await;
    let effect = fixture.status().await["state"]["effectId"].clone();

    let mut owner = fixture.socket().await;
    owner.acquire("phone").await;
    far.write_all(&[event(2, 7, 5), event(1, 0x100, 1), event(2, 7, -3)].concat()).unwrap();
    eventually("blocked events are counted", async || {
        fixture.status().await["controlCounters"]["blockedLocalEncoderInputs"] == 3
    })
    .await;
    drop(owner);
    eventually("the lease is free", async || {
        fixture.get("/api/v1/control/status").await.1["data"]["active"] == false
    })
    .await;
    far.write_all(&event(2, 7, 1)).unwrap();
    eventually("encoder events are accepted again", async || brightness().await == 116).await;
    assert_eq!(fixture.status().await["state"]["effectId"], effect, "dropped events are not queued");
    fixture.stop().await;
}
