//! A participant that speaks the media protocol and nothing more.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use tenure_meet_wire::Id;
use tenure_meet_wire::media::Alias;
use tenure_meet_wire::media::audio::{self, AudioPacket, Datagram};
use tenure_meet_wire::media::group::{
    Frame, FrameFlags, FrameHeader, GroupDecoder, GroupHeader, encode_frame_header, encode_header,
};
use tenure_meet_wire::media::message::media_event::Payload as Event;
use tenure_meet_wire::media::message::media_request::Payload as Request;
use tenure_meet_wire::media::message::{
    Hello, MediaEvent, MediaRequest, Publish, Rendition, Subscribe, Subscribed, Welcome,
};
use tenure_meet_wire::signaling::{ErrorCode, StreamType};
use tenure_meet_wire::transport::{
    MessageReader, MessageWriter, RecvStream, SendStream, Session, TransportError,
};

pub(crate) struct MediaClient<S: Session + ?Sized> {
    pub(crate) session: Arc<S>,
    reader: MessageReader,
    writer: MessageWriter,
    seq: u64,
    /// Events that came while another one was awaited.
    events: VecDeque<MediaEvent>,
}

pub(crate) fn alias(number: u16) -> Alias {
    Alias::new(number.into()).unwrap()
}

/// A publication of video with renditions of 100, 400 and 1,200 kbit/s.
pub(crate) fn video(number: u16, renditions: usize) -> Publish {
    let bitrates = [100_000, 400_000, 1_200_000];
    let renditions = bitrates
        .into_iter()
        .take(renditions)
        .enumerate()
        .map(|(at, max_bitrate)| Rendition { index: at as u32, max_bitrate, ..Rendition::default() })
        .collect();
    let mut publish = Publish {
        alias: number.into(),
        stream_id: "camera".to_owned(),
        codec: "avc1.42e01f".to_owned(),
        renditions,
        temporal_layers: 2,
        incarnation: 1,
        ..Publish::default()
    };
    publish.set_type(StreamType::Video);
    publish
}

pub(crate) fn microphone(number: u16) -> Publish {
    let mut publish = Publish {
        alias: number.into(),
        stream_id: "microphone".to_owned(),
        codec: "opus".to_owned(),
        incarnation: 1,
        ..Publish::default()
    };
    publish.set_type(StreamType::Audio);
    publish
}

pub(crate) fn watch(of: Id) -> Subscribe {
    let mut subscribe = Subscribe {
        participant_id: of.to_string(),
        stream_id: "camera".to_owned(),
        priority: 100,
        ..Subscribe::default()
    };
    subscribe.set_type(StreamType::Video);
    subscribe
}

pub(crate) fn listen(of: Option<Id>, priority: u32) -> Subscribe {
    let mut subscribe = Subscribe {
        participant_id: of.map(|id| id.to_string()).unwrap_or_default(),
        stream_id: of.map(|_| "microphone".to_owned()).unwrap_or_default(),
        priority,
        ..Subscribe::default()
    };
    subscribe.set_type(StreamType::Audio);
    subscribe
}

impl<S: Session + ?Sized> MediaClient<S> {
    pub(crate) async fn greet(session: Arc<S>, grant: Bytes, standby: bool) -> Self {
        let (send, receive) = session.open_bi().await.unwrap();
        let (writer, reader) = (MessageWriter::new(send), MessageReader::new(receive));
        let mut client = Self { session, reader, writer, seq: 0, events: VecDeque::new() };
        client.send(Request::Hello(Hello { grant, standby })).await;
        client
    }

    /// Sends a request and returns its number.
    pub(crate) async fn send(&mut self, request: Request) -> u64 {
        self.seq += 1;
        self.writer.send(&MediaRequest { payload: Some(request), seq: self.seq }).await.unwrap();
        self.seq
    }

    /// Sends a request without a payload, as one of a later version looks.
    pub(crate) async fn send_empty(&mut self) -> u64 {
        self.seq += 1;
        self.writer.send(&MediaRequest { payload: None, seq: self.seq }).await.unwrap();
        self.seq
    }

    async fn receive(&mut self) -> Option<MediaEvent> {
        self.reader.next::<MediaEvent>().await.ok().flatten()
    }

    /// The answer to a request. Other events are kept.
    pub(crate) async fn call(&mut self, request: Request) -> Event {
        let seq = self.send(request).await;
        loop {
            let event = self.receive().await.expect("the session is open");
            if event.seq == seq {
                return event.payload.unwrap();
            }
            self.events.push_back(event);
        }
    }

    /// The next event that `pick` accepts. Others are dropped.
    pub(crate) async fn event<T>(&mut self, pick: impl Fn(&Event) -> Option<T>) -> T {
        loop {
            let event = match self.events.pop_front() {
                Some(event) => event,
                None => self.receive().await.expect("the session is open"),
            };
            if let Some(picked) = event.payload.as_ref().and_then(&pick) {
                return picked;
            }
        }
    }

    pub(crate) async fn welcome(&mut self) -> Welcome {
        self.event(|event| match event {
            Event::Welcome(welcome) => Some(welcome.clone()),
            other => panic!("{other:?}"),
        })
        .await
    }

    pub(crate) async fn error(&mut self, request: Request) -> ErrorCode {
        match self.call(request).await {
            Event::Error(error) => error.code(),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn accept(&mut self, request: Request) {
        match self.call(request).await {
            Event::Accepted(_) => {}
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn publish(&mut self, publish: Publish) {
        match self.call(Request::Publish(publish)).await {
            Event::Published(_) => {}
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn subscribe(&mut self, subscribe: Subscribe) -> Subscribed {
        match self.call(Request::Subscribe(subscribe)).await {
            Event::Subscribed(subscribed) => subscribed,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn subscribed(&mut self) -> Subscribed {
        self.event(|event| match event {
            Event::Subscribed(subscribed) => Some(subscribed.clone()),
            _ => None,
        })
        .await
    }

    pub(crate) async fn keyframe_needed(&mut self) -> u32 {
        self.event(|event| match event {
            Event::KeyframeNeeded(needed) => Some(needed.rendition),
            _ => None,
        })
        .await
    }

    pub(crate) async fn renditions_needed(&mut self) -> Vec<u32> {
        self.event(|event| match event {
            Event::RenditionsNeeded(needed) => Some(needed.renditions.clone()),
            _ => None,
        })
        .await
    }

    /// The subscription that ended, and why.
    pub(crate) async fn ended(&mut self) -> (u32, String) {
        self.event(|event| match event {
            Event::Ended(ended) => Some((ended.alias, ended.reason.clone())),
            _ => None,
        })
        .await
    }

    /// Opens a group.
    pub(crate) async fn group(&self, number: u16, rendition: u8, group: u64) -> GroupSender {
        let mut stream = self.session.open_uni().await.unwrap();
        let header = GroupHeader { alias: alias(number), rendition, group, timestamp_us: group * 1_000_000 };
        stream.send(encode_header(&header).unwrap()).await.unwrap();
        GroupSender { stream, frames: 0 }
    }

    /// Accepts the next group.
    pub(crate) async fn next_group(&self) -> GroupReceiver {
        let stream = self.session.accept_uni().await.unwrap();
        GroupReceiver { stream, decoder: GroupDecoder::default(), frames: VecDeque::new() }
    }

    pub(crate) fn speak(&self, number: u16, sequence: u64, level: u8) {
        let payload = vec![sequence as u8; 40].into();
        let packet = AudioPacket {
            alias: alias(number),
            sequence,
            timestamp_us: sequence * 20_000,
            level,
            redundant: Bytes::new(),
            payload,
        };
        self.session.send_datagram(packet.encode().unwrap()).unwrap();
    }

    /// The next audio packet. Keep-alives are skipped.
    pub(crate) async fn hear(&self) -> AudioPacket {
        loop {
            let datagram = self.session.receive_datagram().await.unwrap();
            if let Datagram::Audio(packet) = audio::decode(&datagram).unwrap() {
                return packet;
            }
        }
    }
}

pub(crate) struct GroupSender {
    pub(crate) stream: Box<dyn SendStream>,
    frames: u64,
}

impl GroupSender {
    /// Sends the next frame; the first one is a key frame.
    pub(crate) async fn frame(&mut self, temporal: u8, payload: &[u8]) -> Result<(), TransportError> {
        let flags = FrameFlags { key: self.frames == 0, discardable: temporal > 0, temporal };
        let header = FrameHeader { len: payload.len(), delta_us: self.frames * 33_333, flags };
        self.frames += 1;
        self.stream.send(encode_frame_header(&header).unwrap()).await?;
        self.stream.send(Bytes::copy_from_slice(payload)).await
    }

    /// Sends until the handler stops the stream, and returns its code.
    pub(crate) async fn stopped(&mut self) -> Option<u32> {
        loop {
            match self.frame(0, b"more").await {
                Ok(()) => tokio::task::yield_now().await,
                Err(TransportError::Reset(code)) => return code,
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

pub(crate) struct GroupReceiver {
    stream: Box<dyn RecvStream>,
    decoder: GroupDecoder,
    frames: VecDeque<Frame>,
}

/// How a group ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum GroupEnd {
    Finished,
    Reset(Option<u32>),
}

impl GroupReceiver {
    /// The header, which must arrive.
    pub(crate) async fn header(&mut self) -> GroupHeader {
        loop {
            if let Some(header) = self.decoder.header() {
                return *header;
            }
            self.read().await.expect("a header");
        }
    }

    async fn read(&mut self) -> Result<(), GroupEnd> {
        match self.stream.receive(64 * 1024).await {
            Ok(Some(bytes)) => self.decoder.push(&bytes).unwrap(),
            Ok(None) => {
                self.decoder.finish().unwrap();
                return Err(GroupEnd::Finished);
            }
            Err(TransportError::Reset(code)) => return Err(GroupEnd::Reset(code)),
            Err(other) => panic!("{other:?}"),
        }
        while let Some(frame) = self.decoder.next_frame().unwrap() {
            self.frames.push_back(frame);
        }
        Ok(())
    }

    /// The payload of the next frame, or how the group ended.
    pub(crate) async fn next(&mut self) -> Result<String, GroupEnd> {
        self.frame().await.map(|frame| String::from_utf8_lossy(&frame.payload).into_owned())
    }

    pub(crate) async fn frame(&mut self) -> Result<Frame, GroupEnd> {
        loop {
            if let Some(frame) = self.frames.pop_front() {
                return Ok(frame);
            }
            self.read().await?;
        }
    }

    /// Reads to the end and returns the number of frames with it.
    pub(crate) async fn rest(&mut self) -> (usize, GroupEnd) {
        let mut count = 0;
        loop {
            match self.frame().await {
                Ok(_) => count += 1,
                Err(end) => return (count, end),
            }
        }
    }
}
