// The worker that carries the media of a meeting, so that a busy page does not delay it.
import { MediaEngine } from "./mediaengine.js";

const engine = new MediaEngine((message) => postMessage(message));
const readers = new Map();

/** Frames that the page takes from a video element itself, as a stream. */
function frames(name) {
  const stream = new ReadableStream({ start(controller) { readers.set(name, controller); }, cancel() { readers.delete(name); } }, { highWaterMark: 2 });
  return stream;
}

const HANDLERS = {
  servers: ({ servers }) => engine.setServers(servers),
  watch: ({ wanted }) => engine.watch(wanted),
  forget: ({ participant, stream }) => engine.forget(participant, stream),
  speakers: ({ port }) => engine.setSpeakers(port),
  picture: ({ name, readable, pushed }) => engine.setPicture(name, pushed ? frames(name) : readable),
  frame({ name, frame }) {
    const controller = readers.get(name);
    if (controller && controller.desiredSize > 0) controller.enqueue(frame);
    else frame.close();
  },
  sound: ({ name, port }) => engine.setSound(name, port),
  stats: ({ id }) => postMessage({ kind: "stats", id, stats: engine.stats() }),
  close() { engine.close(); close(); },
};

onmessage = ({ data }) => HANDLERS[data.kind](data);
