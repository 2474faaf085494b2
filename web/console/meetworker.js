// The worker that holds the connections to meeting controllers, and timers that browsers do not slow down.
import { Connection } from "./meetconnection.js";

const connections = new Map();
const timers = new Map();

const HANDLERS = {
  async open({ id, place }) {
    const connection = new Connection(place, {
      message: (message) => postMessage({ id, kind: "message", message }),
      suspect: () => postMessage({ id, kind: "suspect" }),
      closed(ending) { connections.delete(id); postMessage({ id, kind: "closed", ending }); },
    });
    connections.set(id, connection);
    try {
      await connection.open();
      postMessage({ id, kind: "opened" });
    } catch (error) {
      connections.delete(id);
      postMessage({ id, kind: "failed", why: String(error.message ?? error) });
    }
  },
  send: ({ id, message }) => connections.get(id)?.send(message),
  watch: ({ id }) => connections.get(id)?.watch(),
  seen({ id, seq }) { if (connections.has(id)) connections.get(id).seen = seq; },
  close({ id }) { connections.get(id)?.close(); connections.delete(id); },
  after({ id, ms }) { timers.set(id, setTimeout(() => { timers.delete(id); postMessage({ id, kind: "fired" }); }, ms)); },
  cancel({ id }) { clearTimeout(timers.get(id)); timers.delete(id); },
};

onmessage = ({ data }) => HANDLERS[data.kind](data);
