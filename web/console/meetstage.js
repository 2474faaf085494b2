// The stage: tiles in a grid, or one large tile with the others beside it; pages, pinning and full screen.
import { colour, h, text } from "./dom.js";
import { arrange, fitGrid, pageSize, renditionFor } from "./meetlayout.js";
import { muted } from "./meetperson.js";
import { Tile } from "./meettile.js";
import { StreamType } from "./meetwire.js";

const VIEW = "meet-view";
/** The width of a tile below a large one, with its gap, in pixels; on a narrow stage it is smaller. As in meetroom.css. */
const STRIP = { narrow: 120, wide: 184 }, NARROW = 740;
/** Priorities of pictures at the handler: what is large comes first, and a screen before faces. */
const PRIORITY = { screen: 200, large: 150, small: 100 };

export class Stage {
  /** `tileActions(person)` are the entries of a tile's menu beside those of the stage itself; `forget(id)` is called for a canvas
   *  that is not shown again. */
  constructor({ tileActions, answer, changed, stopSharing, forget }) {
    Object.assign(this, { tileActions, answer, changed, stopSharing, forget });
    this.tiles = new Map();
    this.colours = new Map();
    this.canvases = new Map();
    this.view = localStorage.getItem(VIEW) === "speaker" ? "speaker" : "grid";
    this.page = 0;
    this.pinned = null;
    /** Who speaks now, or null, and who spoke last. */
    this.speaking = null;
    this.speaker = null;
    this.large = h("ul", { class: "large", "aria-label": "Large" });
    this.list = h("ul", { class: "participants", test: "participants", "aria-label": "People" });
    this.previous = h("button", { test: "page-previous", type: "button", "aria-label": "Previous page", onclick: () => this.turn(-1) }, "‹");
    this.next = h("button", { test: "page-next", type: "button", "aria-label": "Next page", onclick: () => this.turn(1) }, "›");
    this.place = h("span", { test: "page-place" });
    this.pager = h("div", { class: "pages-bar", role: "group", "aria-label": "Pages of people", hidden: true }, this.previous, this.place, this.next);
    this.el = h("div", { class: "stage", test: "stage" }, this.large, this.list, this.pager);
    new ResizeObserver(() => this.meeting && this.layOut()).observe(this.el);
  }

  setView(view) {
    this.view = view;
    this.pinned = null;
    try { localStorage.setItem(VIEW, view); } catch { /* not kept */ }
    this.changed();
  }

  pin(id) {
    this.pinned = this.pinned === id ? null : id;
    this.changed();
  }

  turn(by) {
    this.page = Math.max(0, this.page + by);
    this.changed();
  }

  /** Paints people and screens. `view` is the meeting, `local` the own tracks. */
  paint({ view, people, local, hosting }) {
    this.meeting = view;
    const wanted = new Map(people.map((person) => [person.participant_id, [person, false]]));
    const screens = [];
    for (const person of people) {
      const own = person.participant_id === view.me;
      if (!(own ? local.screen : streamOf(person, StreamType.SCREEN))) continue;
      screens.push(`screen:${person.participant_id}`);
      wanted.set(screens.at(-1), [person, true]);
    }
    for (const [id, tile] of this.tiles) if (!wanted.has(id)) this.drop(id, tile);
    for (const [id, [person, screen]] of wanted) {
      const tile = this.tiles.get(id) ?? this.create(id, person, screen, view.me);
      tile.paint(person, { ask: hosting ? view.asks[person.participant_id] : null, hand: person.hand_raised_at, speaking: this.speaking === person.participant_id });
      this.showPicture(tile, person, local);
    }
    this.order = { ids: people.map((person) => person.participant_id), screens };
    this.layOut();
  }

  create(id, person, screen, me) {
    const own = person.participant_id === me;
    const tile = new Tile({
      id, person, own, screen, slot: colour(person.participant_id, this.colours),
      actions: (now) => [
        { label: this.pinned === id ? "Unpin" : "Pin", test: "pin", act: () => this.pin(id) },
        { label: "Full screen", test: "tile-full", act: () => this.fullScreen(tile.el) },
        screen && own && { label: "Stop sharing", test: "stop-sharing", act: this.stopSharing },
        ...(screen || own ? [] : this.tileActions(now)),
      ],
      answer: (yes) => this.answer(person.participant_id, yes),
    });
    this.tiles.set(id, tile);
    return tile;
  }

  drop(id, tile) {
    tile.el.remove();
    this.tiles.delete(id);
    this.dropCanvas(id);
    if (this.pinned === id) this.pinned = null;
  }

  dropCanvas(id) { if (this.canvases.delete(id)) this.forget(id); }

  /** One's own picture comes from the device, that of others from the media session, on a canvas. */
  showPicture(tile, person, local) {
    if (tile.own) {
      const track = tile.screen ? local.screen : local.video;
      if (!track) return tile.show(null);
      const video = tile.picture ?? h("video", { autoplay: true, playsinline: true, class: tile.screen ? "" : "mirrored", "aria-label": tile.screen ? "Your screen" : "Your camera" });
      video.muted = true;
      if (video.srcObject?.getTracks()[0] !== track) video.srcObject = new MediaStream([track]);
      return tile.show(video);
    }
    const on = streamOf(person, tile.screen ? StreamType.SCREEN : StreamType.VIDEO) && muted(person, "video") === "no";
    if (!on) this.dropCanvas(tile.id);
    else if (!this.canvases.has(tile.id)) this.canvases.set(tile.id, h("canvas", { test: "picture", width: 16, height: 9, role: "img", "aria-label": tile.screen ? `The screen of ${person.name}` : `The camera of ${person.name}` }));
    tile.show(this.canvases.get(tile.id) ?? null);
  }

  layOut() {
    const { width, height } = this.el.getBoundingClientRect();
    if (!this.order || !width || !height) return;
    const size = pageSize(width, height), strip = Math.max(2, Math.floor(width / (width < NARROW ? STRIP.narrow : STRIP.wide)));
    const { large, tiles, page, pages } = arrange({ ...this.order, view: this.view, pinned: this.pinned, speaker: this.speaker, me: this.meeting.me, page: this.page, size, strip });
    this.page = page;
    this.el.dataset.view = large ? "speaker" : "grid";
    this.el.dataset.pinned = this.pinned ?? "";
    fill(this.large, large ? [this.tiles.get(large).el] : []);
    fill(this.list, tiles.map((id) => this.tiles.get(id).el));
    this.large.hidden = !large;
    this.list.hidden = tiles.length === 0;
    this.pager.hidden = pages < 2;
    text(this.place, `${page + 1} of ${pages}`);
    this.previous.disabled = page === 0;
    this.next.disabled = page === pages - 1;
    const grid = fitGrid(tiles.length || 1, width, height - (pages > 1 ? 44 : 0));
    this.list.style.setProperty("--columns", String(grid.columns));
    this.list.style.setProperty("--tile-width", `${grid.width}px`);
    this.list.style.setProperty("--tile-height", `${grid.height}px`);
    this.shown = { large, tiles };
  }

  /** The pictures of others that are in view: what the media session subscribes to. */
  watched() {
    if (!this.shown || document.hidden) return [];
    return [this.shown.large, ...this.shown.tiles].filter((id) => id && this.canvases.has(id)).map((id) => {
      const tile = this.tiles.get(id), large = id === this.shown.large;
      const stream = streamOf(tile.person, tile.screen ? StreamType.SCREEN : StreamType.VIDEO);
      return {
        key: id, canvas: this.canvases.get(id), participant: tile.person.participant_id, stream: String(stream.stream_id), screen: tile.screen,
        rendition: renditionFor(tile.el.clientWidth * devicePixelRatio), priority: tile.screen ? PRIORITY.screen : large ? PRIORITY.large : PRIORITY.small,
      };
    });
  }

  fullScreen(element = this.el) {
    if (document.fullscreenElement) document.exitFullscreen();
    else element.requestFullscreen?.().catch(() => {});
  }

  levels(values) {
    for (const [id, tile] of this.tiles) if (!tile.screen) tile.level(values[id] ?? 0);
  }
}

/** A stream of a participant, of this type. */
export const streamOf = (person, type) => person.streams?.find((stream) => stream.stream_type === type);

/** Makes these the children, and moves only what is elsewhere. */
function fill(parent, elements) {
  for (const child of [...parent.children]) if (!elements.includes(child)) child.remove();
  elements.forEach((element, index) => { if (parent.children[index] !== element) parent.insertBefore(element, parent.children[index] ?? null); });
}
