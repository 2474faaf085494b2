//! Hands on the device: a serial line, played by a pseudo-terminal, and a knob, played by a pipe.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use control::{COMMANDS, Class, Options, Serial, Source, Standing, allowed};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::rig::{Rig, calm, eventually, within};

/// The far end of a serial line.
struct Line {
    reader: BufReader<tokio_serial::SerialStream>,
    _keep: tokio_serial::SerialStream,
}

impl Line {
    /// A pseudo-terminal, and the path at which the service finds its other end.
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
async fn a_serial_line_reads_always_and_changes_only_while_nobody_holds() {
    let (mut line, path) = Line::new();
    let rig = Rig::start(Options { serial: vec![Serial { path, baud: 115_200 }], ..calm() }).await;
    assert!(line.ask("status").await.starts_with("OK {"));
    assert!(line.ask("brightness 77").await.starts_with("OK "));
    assert_eq!(rig.status().await["state"]["parameters"]["brightness"], 77);
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

    let mut owner = rig.socket().await;
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
    let status = rig.status().await;
    assert_eq!(status["controlCounters"]["blockedLocalSerialInputs"], 5);
    assert_eq!(
        (&status["state"]["parameters"]["brightness"], &status["state"]["power"]),
        (&json!(77), &json!(true))
    );
    drop(owner);
    eventually("the line is heard again", async || line.ask("brightness 5").await.starts_with("OK ")).await;
    rig.stop().await;
}

#[tokio::test]
async fn on_a_serial_line_every_command_of_the_table_obeys_the_matrix() {
    let (mut line, path) = Line::new();
    let rig = Rig::start(Options { serial: vec![Serial { path, baud: 115_200 }], ..calm() }).await;
    let message =
        async |line: &mut Line, name: &str| line.json(json!({ "type": name })).await["error"].clone();
    let mut unknown = Vec::new();
    for command in COMMANDS.iter() {
        let error = message(&mut line, command.name).await;
        assert_ne!(error["code"], "CONTROL_LOCKED", "{}", command.name);
        // What belongs to WebSockets is no command here, and so counts as a change.
        if error["message"].as_str().is_some_and(|words| words.contains("unknown command type")) {
            unknown.push(command.name);
        }
    }
    for name in ["control.acquire", "control.heartbeat", "control.release", "render.stream.start"] {
        assert!(unknown.contains(&name), "{name}");
    }
    let mut owner = rig.socket().await;
    owner.acquire("phone").await;
    let mut blocked = 0;
    for command in COMMANDS.iter() {
        let class = if unknown.contains(&command.name) { Class::Mutate } else { command.class };
        let error = message(&mut line, command.name).await;
        let open = allowed(class, Source::Serial, Standing::Owner);
        assert_eq!(error["code"] != "CONTROL_LOCKED", open, "{}: {error}", command.name);
        blocked += u64::from(!open);
    }
    assert_eq!(rig.status().await["controlCounters"]["blockedLocalSerialInputs"], blocked);
    rig.stop().await;
}

/// An event as the kernel writes it.
fn event(kind: u16, code: u16, value: i32) -> Vec<u8> {
    let mut bytes = vec![0; 2 * size_of::<usize>()];
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(code.to_ne_bytes());
    bytes.extend(value.to_ne_bytes());
    bytes
}

#[tokio::test]
async fn a_knob_is_heard_only_while_nobody_holds() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("event0");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    // Open for both, so that neither side waits for the other.
    let far: OwnedFd = rustix::fs::open(&path, rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).unwrap();
    let mut far = File::from(far);
    let options = Options { encoder: vec![path.to_str().unwrap().to_owned()], ..calm() };
    let rig = Rig::start(options).await;
    rig.post("/api/v1/parameters", json!({ "brightness": 100 }), &[]).await;
    let brightness = async || rig.status().await["state"]["parameters"]["brightness"].as_u64().unwrap();
    let turn = event(2, 7, 2);
    // In two pieces, as a slow device would.
    far.write_all(&turn[..5]).unwrap();
    far.write_all(&turn[5..]).unwrap();
    eventually("it got brighter", async || brightness().await == 116).await;
    far.write_all(&[event(2, 8, -1), event(0, 0, 0), event(1, 0x100, 1), event(1, 0x100, 0)].concat())
        .unwrap();
    eventually("it got darker", async || brightness().await == 108).await;
    let effect = rig.status().await["state"]["effectId"].clone();

    let mut owner = rig.socket().await;
    owner.acquire("phone").await;
    far.write_all(&[event(2, 7, 5), event(1, 0x100, 1), event(2, 7, -3)].concat()).unwrap();
    eventually("they are counted", async || {
        rig.status().await["controlCounters"]["blockedLocalEncoderInputs"] == 3
    })
    .await;
    drop(owner);
    eventually("the lease is free", async || {
        rig.get("/api/v1/control/status").await.1["data"]["active"] == false
    })
    .await;
    far.write_all(&event(2, 7, 1)).unwrap();
    eventually("the knob is heard again", async || brightness().await == 116).await;
    assert_eq!(rig.status().await["state"]["effectId"], effect, "what was dropped does not come later");
    rig.stop().await;
}
