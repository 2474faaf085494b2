//! A client of either server: the least that sends and receives.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;
use tenure_meet_wire::media::Alias;
use tenure_meet_wire::media::audio::{self, AudioPacket, Datagram};
use tenure_meet_wire::media::group::{
    FrameFlags, FrameHeader, GroupDecoder, GroupHeader, encode_frame_header, encode_header,
};
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{Hello, MediaEvent, MediaRequest, Publish, Rendition, Subscribe};
use tenure_meet_wire::signaling::StreamType;
use tenure_meet_wire::transport::{MessageReader, MessageWriter, RecvStream, SendStream, Session};
use tokio::task::JoinSet;

use super::handler;
use super::sides::Side;
use crate::clock::{Moment, pause};

const VIDEO: u16 = 1;
const AUDIO: u16 = 2;
const READ: usize = 64 * 1024;
/// Frames of a group.
const GROUP: u64 = 60;

/// When everything was received, since it was sent.
#[derive(Clone)]
pub(super) struct Record {
    pub(super) origin: Moment,
    frames: Arc<Mutex<Vec<Duration>>>,
    packets: Arc<Mutex<Vec<Duration>>>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self { origin: Moment::now(), frames: Arc::default(), packets: Arc::default() }
    }

    /// What was received since the last call: frames and packets.
    pub(super) fn take(&self) -> (Vec<Duration>, Vec<Duration>) {
        (std::mem::take(&mut *self.frames.lock()), std::mem::take(&mut *self.packets.lock()))
    }

    fn age(&self, payload: &[u8]) -> Duration {
        let sent = payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        self.origin.passed().saturating_sub(Duration::from_nanos(sent))
    }
}

/// A session with a server.
pub(super) struct Peer {
    session: Arc<dyn Session>,
    control: Option<(MessageWriter, MessageReader)>,
    seq: u64,
    tasks: JoinSet<()>,
}

impl Peer {
    /// Connects as a participant. The bare forwarder has no participants and takes no requests.
    pub(super) async fn connect(side: &Side, number: usize, serial: u64) -> Result<Self> {
        let session = side.dial().await?;
        let mut peer = Self { session, control: None, seq: 0, tasks: JoinSet::new() };
        if side.is_handler() {
            let (send, receive) = peer.session.open_bi().await?;
            peer.control = Some((MessageWriter::new(send), MessageReader::new(receive)));
            let hello = Hello { grant: handler::grant(number, serial)?, standby: false };
            peer.request(Request::Hello(hello)).await?;
        }
        Ok(peer)
    }

    /// Sends a request and waits for its answer.
    async fn request(&mut self, request: Request) -> Result<()> {
        let Some((writer, reader)) = &mut self.control else { return Ok(()) };
        self.seq += 1;
        writer.send(&MediaRequest { payload: Some(request), seq: self.seq }).await?;
        loop {
            let event: MediaEvent = reader.next().await?.context("the control stream ended")?;
            match event.payload {
                Some(Event::Error(error)) => bail!("refused: {}", error.message),
                _ if event.seq == self.seq => return Ok(()),
                _ => {}
            }
        }
    }

    /// Publishes video and audio.
    pub(super) async fn publish(&mut self) -> Result<()> {
        let rendition = Rendition { index: 0, max_bitrate: 8_000_000, max_fps: 60, ..Rendition::default() };
        let mut video = Publish {
            alias: VIDEO.into(),
            stream_id: "2".to_owned(),
            codec: "avc1.42C01F".to_owned(),
            renditions: vec![rendition],
            temporal_layers: 1,
            incarnation: 1,
            ..Publish::default()
        };
        video.set_type(StreamType::Video);
        let mut audio = Publish {
            alias: AUDIO.into(),
            stream_id: "1".to_owned(),
            codec: "opus".to_owned(),
            incarnation: 1,
            ..Publish::default()
        };
        audio.set_type(StreamType::Audio);
        self.request(Request::Publish(video)).await?;
        self.request(Request::Publish(audio)).await
    }

    pub(super) async fn watch(&mut self, number: usize) -> Result<()> {
        let participant_id = handler::participant(number)?.to_string();
        let mut watch =
            Subscribe { participant_id, stream_id: "2".to_owned(), priority: 100, ..Subscribe::default() };
        watch.set_type(StreamType::Video);
        self.request(Request::Subscribe(watch)).await
    }

    pub(super) async fn listen(&mut self) -> Result<()> {
        let mut listen = Subscribe { priority: 200, ..Subscribe::default() };
        listen.set_type(StreamType::Audio);
        self.request(Request::Subscribe(listen)).await
    }

    /// Receives everything from now on. No request can follow.
    pub(super) fn receive(&mut self, record: &Record) {
        self.drain_control();
        self.tasks.spawn(read_streams(self.session.clone(), record.clone()));
        self.tasks.spawn(read_datagrams(self.session.clone(), record.clone()));
    }

    /// Accepts streams but never reads them.
    pub(super) fn stall(&mut self) {
        self.drain_control();
        let session = self.session.clone();
        self.tasks.spawn(async move {
            let mut held = Vec::new();
            while let Ok(stream) = session.accept_uni().await {
                held.push(stream);
            }
        });
    }

    fn drain_control(&mut self) {
        if let Some((writer, mut reader)) = self.control.take() {
            self.tasks.spawn(async move {
                let _kept_open = writer;
                while let Ok(Some(_)) = reader.next::<MediaEvent>().await {}
            });
        }
    }

    /// Sends frames of this size at this rate for a while.
    pub(super) async fn film(
        &self,
        record: &Record,
        fps: u32,
        size: usize,
        time: Duration,
        first: u64,
    ) -> Result<u64> {
        let (began, interval) = (Moment::now(), Duration::from_secs(1) / fps);
        let (mut count, mut group) = (0, None);
        while began.passed() < time {
            if count % GROUP == 0 {
                group = Some(self.begin_group(first + count / GROUP, &mut group).await?);
            }
            let Some((stream, at)) = &mut group else { bail!("no group") };
            send_frame(&mut **stream, count % GROUP == 0, *at, record, size).await?;
            count += 1;
            pause((interval * count as u32).saturating_sub(began.passed())).await;
        }
        if let Some((mut stream, _)) = group {
            stream.finish();
        }
        Ok(count)
    }

    async fn begin_group(
        &self,
        number: u64,
        old: &mut Option<(Box<dyn SendStream>, Moment)>,
    ) -> Result<(Box<dyn SendStream>, Moment)> {
        if let Some((mut stream, _)) = old.take() {
            stream.finish();
        }
        let alias = Alias::new(VIDEO.into()).context("alias")?;
        let header = GroupHeader { alias, rendition: 0, group: number, timestamp_us: number * 1_000_000 };
        let mut stream = self.session.open_uni().await?;
        stream.send(encode_header(&header)?).await?;
        Ok((stream, Moment::now()))
    }

    /// Sends audio packets for a while, 50 a second.
    pub(super) async fn speak(&self, record: &Record, level: u8, time: Duration, first: u64) -> Result<u64> {
        let (began, interval) = (Moment::now(), Duration::from_millis(20));
        let (alias, mut count) = (Alias::new(AUDIO.into()).context("alias")?, 0);
        while began.passed() < time {
            let payload = stamped(record, 80);
            let (redundant, timestamp_us) = (Bytes::new(), (first + count) * 20_000);
            let packet =
                AudioPacket { alias, sequence: first + count, timestamp_us, level, redundant, payload };
            self.session.send_datagram(packet.encode()?)?;
            count += 1;
            pause((interval * count as u32).saturating_sub(began.passed())).await;
        }
        Ok(count)
    }
}

fn stamped(record: &Record, size: usize) -> Bytes {
    let mut payload = BytesMut::with_capacity(size);
    payload.put_u64(record.origin.passed().as_nanos() as u64);
    payload.resize(size, 7);
    payload.freeze()
}

async fn send_frame(
    stream: &mut dyn SendStream,
    key: bool,
    began: Moment,
    record: &Record,
    size: usize,
) -> Result<()> {
    let flags = FrameFlags { key, ..FrameFlags::default() };
    let delta_us = began.passed().as_micros() as u64;
    stream.send(encode_frame_header(&FrameHeader { len: size, delta_us, flags })?).await?;
    Ok(stream.send(stamped(record, size)).await?)
}

async fn read_streams(session: Arc<dyn Session>, record: Record) {
    let mut readers = JoinSet::new();
    loop {
        tokio::select! {
            stream = session.accept_uni() => match stream {
                Ok(stream) => drop(readers.spawn(read_stream(stream, record.clone()))),
                Err(_) => return,
            },
            Some(_) = readers.join_next() => {}
        }
    }
}

async fn read_stream(mut stream: Box<dyn RecvStream>, record: Record) {
    let mut decoder = GroupDecoder::default();
    while let Ok(Some(bytes)) = stream.receive(READ).await {
        if decoder.push(&bytes).is_err() {
            return;
        }
        while let Ok(Some(frame)) = decoder.next_frame() {
            let age = record.age(&frame.payload);
            record.frames.lock().push(age);
        }
    }
}

async fn read_datagrams(session: Arc<dyn Session>, record: Record) {
    while let Ok(datagram) = session.receive_datagram().await {
        if let Ok(Datagram::Audio(packet)) = audio::decode(&datagram) {
            let age = record.age(&packet.payload);
            record.packets.lock().push(age);
        }
    }
}
