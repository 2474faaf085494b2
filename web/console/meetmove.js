// A participant that waits at the controller its meeting moves to.
import { Refusal } from "./refusal.js";

/** How long it waits there, in milliseconds: as long as the controller lets it wait with a ticket. */
const PARK = 5_000;

export class ParkedJoin {
  /** Dials `place` and sends `request()`. `joined()` is called when the controller answered, after the meeting moved. */
  constructor({ place, request, dial, after, joined }) {
    /** The connection and the answer, once they are there. */
    this.ready = null;
    this.left = false;
    /** Resolves with the same, or with null when the meeting did not move there. */
    this.joined = this.run({ place, request, dial, after }).then((result) => {
      this.ready = result;
      joined();
      return result;
    }, () => {
      this.connection?.close();
      return null;
    });
  }

  async run({ place, request, dial, after }) {
    const connection = await dial(place);
    this.connection = connection;
    if (this.left) throw new Refusal("LEFT", "the move was aborted");
    connection.send(request());
    const cancel = after(PARK, () => connection.close());
    try {
      const answer = await connection.next();
      if (!answer.join_response || this.left) throw new Refusal("REFUSED", answer.error?.message ?? "unexpected response");
      return { connection, answer };
    } finally { cancel(); }
  }

  /** Gives it up, unless `used` is its result. */
  leave(used = null) {
    this.left = true;
    if (!used) this.connection?.close();
  }
}
