// The REST interface of meetings: who we are, making a meeting, and the door of one.
import { Refusal } from "./meetclient.js";

async function call(method, path, { body, bearer } = {}) {
  const headers = { accept: "application/json" };
  if (body) headers["content-type"] = "application/json";
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  let response, data = {};
  try {
    response = await fetch(path, {
      method, headers, cache: "no-store", credentials: bearer ? "omit" : "same-origin", signal: AbortSignal.timeout(20_000), body: body && JSON.stringify(body),
    });
    data = JSON.parse((await response.text()) || "{}");
  } catch (cause) {
    if (!response) throw new Refusal("NETWORK", "The server does not answer.");
  }
  if (response.ok) return data;
  const { code, message } = data.error ?? { code: data.code ?? `HTTP ${response.status}`, message: data.detail ?? data.title };
  const passes = [408, 425, 429].includes(response.status) || response.status >= 500;
  const refusal = new Refusal(response.status === 404 ? "NOT_FOUND" : code, message, !passes);
  refusal.status = response.status;
  throw refusal;
}

/** Who is signed in, or nobody. */
export async function me() {
  try {
    return await call("GET", "/api/v1/me");
  } catch (error) {
    if (error.status === 401 || error.status === 403) return null;
    throw error;
  }
}

export const create = (display_name, allow_guests) => call("POST", "/api/v1/meetings", { body: { display_name, allow_guests } });

const base64 = (words) => Uint8Array.from(atob(words), (char) => char.charCodeAt(0));

/** The door of the meeting `code`; `kept` is what `keep()` gave in an earlier life of the page. */
export class Door {
  constructor(code, { guest, kept } = {}) {
    this.path = `/api/v1/meetings/${encodeURIComponent(code)}`;
    this.guest = guest ?? null;
    this.pass = kept?.pass ?? null;
  }

  keep() { return { pass: this.pass }; }

  /** The token is not good any more. */
  forget() { if (this.pass) this.pass.until = 0; }

  async bearer() {
    if (this.guest === null) return undefined;
    if (this.pass && Date.now() + 60_000 < this.pass.until) return this.pass.token;
    let made;
    try {
      // The last token keeps us the same guest.
      made = await call("POST", `${this.path}/guest-token`, { body: { display_name: this.guest }, bearer: this.pass?.token });
    } catch (error) {
      if (!this.pass || error.status !== 401) throw error;
      made = await call("POST", `${this.path}/guest-token`, { body: { display_name: this.guest } });
    }
    this.pass = { token: made.token, until: Date.now() + made.expires_in * 1000 };
    return made.token;
  }

  /** The token for a seat and where to show it, as of now. */
  async admit() {
    const joined = await call("GET", this.path, { bearer: await this.bearer() });
    const { mc_id, webtransport_endpoint, certificate_hashes } = joined.mc_assignment;
    return {
      meetingId: joined.meeting_id, name: joined.meeting_name, role: joined.role, token: joined.token,
      mcId: mc_id, url: webtransport_endpoint, hashes: (certificate_hashes ?? []).map(base64),
    };
  }

  /** The controller cannot be reached; whether this is heard matters to nobody here. */
  unreachable(admission, reason) {
    call("POST", `/api/v1/meetings/${encodeURIComponent(admission.meetingId)}/unreachable`, {
      body: { mc_id: admission.mcId, reason: reason.slice(0, 200) }, bearer: admission.token,
    }).catch(() => {});
  }
}
