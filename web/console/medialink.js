// The sessions of this page with the media handlers of its meeting: one carries media, another one stands by. What is
// published and subscribed is known to both, so that the second takes over at once.
import { MediaSession } from "./mediasession.js";
import { MediaServerRole, StreamType } from "./meetschema.js";

/** A primary that is silent for this long, in milliseconds, is given up when another session can take over. */
const SILENCE = 350;
/** A lone session gets more time: there is nothing to change to. */
const LONE_SILENCE = 5_000;
/** How long the old session stays open after a change, in milliseconds. */
const LINGER = 2_000;
const CHECK = 50;
/** A grant older than this, in milliseconds, is not used: it is good for 60 s. */
const GRANT_LIFE = 50_000;
/** A track that ended is asked for again after this time, in milliseconds. */
const AGAIN = 1_000;
const RETRY_FIRST = 300, RETRY_MOST = 5_000;

export class MediaLink {
  /** `on` has group, frames, groupEnd, datagram, event(kind, payload, session), active(session), needGrants, status(statuses). */
  constructor(on) {
    this.on = on;
    this.sessions = [];
    this.active = null;
    this.servers = [];
    this.publications = new Map();
    this.subscriptions = new Map();
    this.failures = 0;
    this.closed = false;
    this.timer = setInterval(() => this.check(), CHECK);
  }

  /** New addresses and grants from the controller. Sessions that work are kept. */
  setServers(servers) {
    this.servers = servers.map((server) => ({ ...server, at: performance.now(), used: false }));
    this.sessions.filter((session) => !servers.some(({ url }) => url === session.url)).forEach((session) => this.retire(session));
    this.dial();
  }

  get backup() { return this.sessions.find((session) => session !== this.active && session.isOpen); }

  /** Opens what is missing. */
  dial() {
    if (this.closed) return;
    const primaryFirst = [...this.servers].sort((a, b) => (a.role === MediaServerRole.BACKUP) - (b.role === MediaServerRole.BACKUP));
    for (const server of primaryFirst) {
      if (this.sessions.some((session) => session.url === server.url && session.state !== "closed")) continue;
      if (server.used || performance.now() - server.at > GRANT_LIFE || !server.grant.length) { this.wantGrants(); continue; }
      server.used = true;
      this.open(server);
    }
  }

  async open(server) {
    // The first session carries media whatever its role is; a later one stands by until it is needed.
    const standby = this.sessions.length > 0;
    const session = new MediaSession({ ...server, standby, on: {
      event: (kind, payload, answer) => this.receive(session, kind, payload, answer),
      group: (group) => this.on.group(group, session),
      frames: (group, frames) => this.on.frames(group, frames, session),
      groupEnd: (group, reset) => this.on.groupEnd(group, reset, session),
      datagram: (packet, track) => this.on.datagram(packet, track, session),
      closed: (why, code) => this.lost(session, why, code),
    } });
    session.aliases = new Map();
    session.asked = new Map();
    session.nextAlias = 1;
    this.sessions.push(session);
    this.report();
    try {
      await session.open();
    } catch { return; /* lost() was called */ }
    this.failures = 0;
    for (const [name, publication] of this.publications) this.announce(session, name, publication);
    for (const subscription of this.subscriptions.values()) this.ask(session, subscription);
    this.elect();
    this.report();
  }

  /** Without an active session, the one that was not on standby becomes active, or the other when the first cannot. */
  elect() {
    if (this.active) return;
    const ready = this.sessions.filter((session) => session.isOpen);
    const first = ready.find((session) => !session.standby);
    if (first) this.use(first, false);
    else if (ready.length && this.sessions.every((session) => session.isOpen)) this.use(ready[0]);
  }

  /** From now on this session carries media. */
  use(session, activate = true) {
    const old = this.active;
    this.active = session;
    if (activate) session.request({ activate: {} }).catch(() => {});
    session.standby = false;
    if (old && old !== session) setTimeout(() => old.close("replaced"), LINGER);
    this.on.active(session);
    this.report();
  }

  lost(session, why, code) {
    session.why = why;
    session.code = code;
    this.sessions = this.sessions.filter((one) => one !== session);
    this.report([session]);
    if (this.closed) return;
    if (session === this.active) {
      this.active = null;
      // Another one may be dialled at the same time: what is ready goes on at once.
      if (this.backup) this.use(this.backup);
      else this.on.active(null);
    } else this.elect();
    const wait = Math.min(RETRY_MOST, RETRY_FIRST * 2 ** this.failures++) * (0.75 + Math.random() / 2);
    clearTimeout(this.retry);
    this.retry = setTimeout(() => this.dial(), wait);
  }

  retire(session) {
    if (session === this.active && this.backup) this.use(this.backup);
    else if (session !== this.active) session.close("no longer named");
  }

  wantGrants() {
    const now = performance.now();
    if (this.wantedAt && now - this.wantedAt < 2_000) {
      clearTimeout(this.retry);
      this.retry = setTimeout(() => this.dial(), 2_000);
      return;
    }
    this.wantedAt = now;
    this.on.needGrants();
  }

  /** Changes to the backup when the active session is silent. A check that comes late counts once: then this side stood still,
   *  and what the handler sent meanwhile may not have been read. */
  check(now = performance.now()) {
    const passed = Math.min(now - (this.checkedAt ?? now), 2 * CHECK);
    for (const session of this.sessions) session.silence = session.heardAt > (this.checkedAt ?? 0) ? 0 : (session.silence ?? 0) + passed;
    this.checkedAt = now;
    if (!this.active) return;
    const { silence: silent = 0 } = this.active;
    const backup = this.backup;
    if (silent > SILENCE && backup && (backup.silence ?? 0) < SILENCE) {
      Object.assign(this.active, { silent: true, why: "silent" });
      this.use(backup);
    }
    else if (silent > LONE_SILENCE) this.active.close("silent");
  }

  receive(session, kind, payload, answer) {
    if (kind === "goaway" && session === this.active && this.backup) this.use(this.backup);
    if (kind === "subscribed") this.named(session, payload);
    if (kind === "ended") this.ended(session, payload);
    const name = [...session.aliases].find(([, alias]) => alias === payload.alias)?.[0];
    this.on.event(kind, payload, session, name, answer);
  }

  /** Publishes a stream on all sessions. `publication` is a Publish without its alias. */
  publish(name, publication) {
    this.publications.set(name, publication);
    for (const session of this.sessions) if (session.isOpen) this.announce(session, name, publication);
  }

  unpublish(name) {
    this.publications.delete(name);
    for (const session of this.sessions) {
      const alias = session.aliases.get(name);
      session.aliases.delete(name);
      if (alias && session.isOpen) session.request({ unpublish: { alias } }).catch(() => {});
    }
  }

  announce(session, name, publication) {
    const alias = session.nextAlias++;
    session.request({ publish: { ...publication, alias } }).then(() => {
      if (this.publications.get(name) === publication) session.aliases.set(name, alias);
      this.on.published(name, session);
    }, (error) => session.isOpen && this.on.refused(name, error));
  }

  /** Makes these the subscriptions, each `{ key, participant_id, stream_id, type, max_rendition, priority }`. */
  subscribe(wanted) {
    const byKey = new Map(wanted.map((one) => [one.key, one]));
    for (const [key, old] of this.subscriptions) {
      if (byKey.has(key)) continue;
      this.subscriptions.delete(key);
      for (const session of this.sessions) this.drop(session, old);
    }
    for (const [key, next] of byKey) {
      const old = this.subscriptions.get(key);
      if (old && old.max_rendition === next.max_rendition && old.priority === next.priority) continue;
      this.subscriptions.set(key, next);
      for (const session of this.sessions) if (session.isOpen) (old ? this.change(session, next) : this.ask(session, next));
    }
  }

  ask(session, { key, ...subscription }) {
    session.asked.set(key, this.subscriptions.get(key));
    session.request({ subscribe: subscription }).catch((error) => session.isOpen && this.on.refused(subscription.stream_id, error));
  }

  aliasOf(session, { participant_id, stream_id }) {
    return [...session.tracks.values()].find((track) => track.participant_id === participant_id && track.stream_id === stream_id)?.alias;
  }

  change(session, subscription) {
    const alias = this.aliasOf(session, subscription);
    const { max_rendition, priority } = subscription;
    if (alias) session.asked.set(subscription.key, subscription);
    if (alias) session.request({ change: { alias, max_rendition, priority } }).catch(() => {});
  }

  drop(session, subscription) {
    const alias = this.aliasOf(session, subscription);
    if (!alias || !session.isOpen) return;
    session.tracks.delete(alias);
    session.request({ unsubscribe: { alias } }).catch(() => {});
  }

  /** A track has an alias. The layout may have given it up, or changed it, meanwhile. */
  named(session, track) {
    if (track.type === StreamType.AUDIO) return;
    const wanted = this.subscriptions.get(keyOf(track));
    if (!wanted) return this.drop(session, track);
    if (session.asked.get(wanted.key) !== wanted) this.change(session, wanted);
  }

  /** A track ended though the layout still shows it: it may come back. */
  ended(session, { track }) {
    const key = track && keyOf(track);
    if (!this.subscriptions.has(key)) return;
    setTimeout(() => {
      const wanted = this.subscriptions.get(key);
      if (wanted && session.isOpen && !this.aliasOf(session, wanted)) this.ask(session, wanted);
    }, AGAIN);
  }

  requestKeyframe(track, rendition) {
    const alias = this.active && this.aliasOf(this.active, track);
    if (alias) this.active.request({ request_keyframe: { alias, rendition } }).catch(() => {});
  }

  /** Tells the controller how the sessions are. */
  report(gone = []) {
    this.on.status([...this.sessions, ...gone].map((session) => ({ url: session.url, state: session.silent ? "closed" : session.state, active: session === this.active, why: session.why ?? "", code: session.code ?? 0 })));
  }

  close() {
    this.closed = true;
    clearInterval(this.timer);
    clearTimeout(this.retry);
    for (const session of [...this.sessions]) session.close("done");
  }
}

export const keyOf = ({ participant_id, stream_id }) => `${participant_id}/${stream_id}`;
