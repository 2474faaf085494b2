// A media handler inside the page, for tests of the page's media: it speaks the protocol of media.proto over streams in
// memory, and forwards what is published to all subscribers. `install()` replaces WebTransport by a way to it.
import { MESSAGES } from "/mediaschema.js";
import { audioDatagram, groupFrame, groupHeader, GroupReader, readDatagram } from "/mediawire.js";
import { Codec, FrameReader } from "/protobuf.js";

const codec = new Codec(MESSAGES);

/** A readable stream and a function that adds to it. */
function source() {
  let controller;
  const readable = new ReadableStream({ start(one) { controller = one; } });
  return { readable, push: (value) => { try { controller.enqueue(value); } catch { /* it is over */ } }, end: () => { try { controller.close(); } catch { /* it is over */ } }, fail: (error) => controller.error(error) };
}

export class Loopback {
  sessions = [];
  publications = [];
  /** Datagrams that are lost, one of so many; sequences and groups that arrived. */
  loseEvery = 0;
  seen = { datagrams: 0, groups: [], hellos: [], activated: 0, reports: 0 };

  install() {
    const handler = this;
    globalThis.WebTransport = class { constructor(url) { return handler.session(url); } };
    globalThis.WebTransportError ??= class extends Error {};
  }

  session(url) {
    const control = source(), streams = source(), datagrams = source();
    let closed;
    const session = {
      url, subscriptions: [], nextAlias: 1, control, streams, silent: false,
      ready: Promise.resolve(), closed: new Promise((done) => { closed = done; }),
      datagrams: { readable: datagrams.readable, writable: new WritableStream({ write: (bytes) => this.datagram(session, bytes) }) },
      incomingUnidirectionalStreams: streams.readable,
      createBidirectionalStream: async () => ({ readable: control.readable, writable: this.requests(session) }),
      createUnidirectionalStream: async () => this.group(session),
      close: () => this.end(session),
      push: (bytes) => { if (!session.silent) datagrams.push(bytes); },
    };
    session.end = (info) => closed(info);
    session.timer = setInterval(() => session.push(Uint8Array.of(3)), 100);
    this.sessions.push(session);
    return session;
  }

  end(session, closeCode = 0) {
    clearInterval(session.timer);
    this.sessions = this.sessions.filter((one) => one !== session);
    this.publications = this.publications.filter((one) => one.session !== session);
    session.control.end();
    session.end({ closeCode, reason: "closed" });
  }

  requests(session) {
    const frames = new FrameReader((bytes) => codec.decode("MediaRequest", bytes));
    return new WritableStream({ write: (bytes) => frames.push(bytes).forEach((request) => this.request(session, request)) });
  }

  tell(session, event) { if (!session.silent) session.control.push(codec.frame("MediaEvent", event)); }

  request(session, { seq, ...request }) {
    const answer = (event) => this.tell(session, { ...event, seq });
    if (request.hello) {
      session.participant = new TextDecoder().decode(request.hello.grant);
      session.standby = request.hello.standby;
      this.seen.hellos.push([session.participant, session.standby]);
      answer({ welcome: { participant_id: session.participant, muted: { mute_epoch: 1 }, max_datagram_bytes: 1_150 } });
    } else if (request.publish) {
      this.publications.push({ session, participant: session.participant, ...request.publish });
      answer({ published: { alias: request.publish.alias } });
      this.tell(session, { renditions_needed: { alias: request.publish.alias, renditions: request.publish.renditions.map(({ index }) => index).slice(-1) } });
      this.sessions.forEach((one) => this.match(one));
    } else if (request.unpublish) {
      this.publications = this.publications.filter((one) => one.session !== session || one.alias !== request.unpublish.alias);
      answer({ accepted: {} });
    } else if (request.subscribe) {
      session.subscriptions.push({ ...request.subscribe, seq, aliases: new Map() });
      this.match(session);
    } else if (request.unsubscribe) {
      session.subscriptions = session.subscriptions.filter((one) => ![...one.aliases.values()].includes(request.unsubscribe.alias));
      answer({ accepted: {} });
    } else if (request.activate) {
      session.standby = false;
      this.seen.activated++;
      for (const one of this.publications.filter(({ renditions }) => renditions.length)) this.tell(one.session, { keyframe_needed: { alias: one.alias, rendition: one.renditions.length - 1 } });
      answer({ accepted: {} });
    } else if (request.report) this.seen.reports++;
    else answer({ accepted: {} });
  }

  /** Names the tracks that a subscription waits for. */
  match(session) {
    for (const one of session.subscriptions) {
      for (const publication of this.publications) {
        const key = `${publication.participant}/${publication.stream_id}`;
        const fits = one.participant_id ? key === `${one.participant_id}/${one.stream_id}` : publication.type === one.type && publication.participant !== session.participant;
        // A publisher that began again keeps its alias and is described again.
        if (!fits || one.described?.get(key) >= publication.incarnation) continue;
        if (!one.aliases.has(key)) one.aliases.set(key, session.nextAlias++);
        (one.described ??= new Map()).set(key, publication.incarnation);
        const { participant, stream_id, type, codec: name, renditions, incarnation } = publication;
        this.tell(session, { subscribed: { alias: one.aliases.get(key), participant_id: participant, stream_id, type, codec: name, renditions, incarnation }, seq: one.participant_id ? one.seq : 0 });
      }
    }
  }

  /** Sessions that receive a publication, with their alias. */
  receivers(session, alias) {
    const from = this.publications.find((one) => one.session === session && one.alias === alias);
    const key = from && `${from.participant}/${from.stream_id}`;
    return this.sessions.flatMap((one) => one.standby || one.silent ? [] : one.subscriptions.filter((two) => two.aliases.has(key)).map((two) => [one, two.aliases.get(key)]));
  }

  datagram(session, bytes) {
    if (session.silent) return;
    const packet = readDatagram(bytes);
    this.seen.datagrams++;
    if (this.loseEvery && packet.sequence % this.loseEvery === 0) return;
    for (const [to, alias] of this.receivers(session, packet.alias)) to.push(audioDatagram({ ...packet, alias }));
  }

  group(session) {
    const group = new GroupReader();
    let outs = null;
    return new WritableStream({
      write: (bytes) => {
        const frames = group.push(bytes);
        if (!outs && group.header) {
          this.seen.groups.push(group.header);
          outs = this.receivers(session, group.header.alias).map(([to, alias]) => {
            const out = source();
            to.streams.push(out.readable);
            out.push(groupHeader({ ...group.header, alias }));
            return out;
          });
        }
        for (const { timestamp, ...frame } of frames) outs.forEach((out) => out.push(groupFrame({ ...frame, delta: timestamp - group.header.timestamp })));
      },
      close: () => outs?.forEach((out) => out.end()),
      abort: (error) => outs?.forEach((out) => out.fail(error)),
    });
  }
}
