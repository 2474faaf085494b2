// The REST API of meetings: the signed-in user, creating a meeting, and joining one.
import { Refusal } from "./refusal.js";

/** How long a request may take, and the report of a lost controller, which the server answers within three seconds. */
const LIMIT = 20_000, REPORT_LIMIT = 5_000;

async function call(method, path, { body, bearer, limit = LIMIT } = {}) {
  const headers = { accept: "application/json" };
  if (body) headers["content-type"] = "application/json";
  if (bearer) headers.authorization = `Bearer ${bearer}`;
  let response, data = {};
  try {
    response = await fetch(path, {
      method, headers, cache: "no-store", credentials: bearer ? "omit" : "same-origin", signal: AbortSignal.timeout(limit), body: body && JSON.stringify(body),
    });
    data = JSON.parse((await response.text()) || "{}");
  } catch (cause) {
    if (!response) throw new Refusal("NETWORK", "The server does not answer.");
  }
  if (response.ok) return data;
  const { code, message } = data.error ?? { code: data.code ?? `HTTP ${response.status}`, message: data.detail ?? data.title };
  const transient = [408, 425, 429].includes(response.status) || response.status >= 500;
  const refusal = new Refusal(response.status === 404 ? "NOT_FOUND" : code, message, !transient);
  refusal.status = response.status;
  throw refusal;
}

/** The signed-in user, if any. */
export async function me() {
  try {
    return await call("GET", "/api/v1/me");
  } catch (error) {
    if (error.status === 401 || error.status === 403) return null;
    throw error;
  }
}

export const create = (display_name, allow_guests, waiting_room) =>
  call("POST", "/api/v1/meetings", { body: { display_name, allow_guests, ...(waiting_room ? { waiting_room } : {}) } });

/** Changes settings of a meeting, for its host, and returns them all. */
export const change = (meetingId, settings) => call("PATCH", `/api/v1/meetings/${encodeURIComponent(meetingId)}/settings`, { body: settings });

const base64 = (text) => Uint8Array.from(atob(text), (char) => char.charCodeAt(0));

/** Joins the meeting `code`. `saved` is what `save()` returned before the page was reloaded. */
export class JoinApi {
  constructor(code, { guest, saved } = {}) {
    this.path = `/api/v1/meetings/${encodeURIComponent(code)}`;
    this.guest = guest ?? null;
    this.guestToken = saved?.pass ?? null;
  }

  /** What a reload of the page needs. The field keeps the name under which it is in storage. */
  save() { return { pass: this.guestToken }; }

  /** Discards the guest token, which the server no longer accepts. */
  forget() { if (this.guestToken) this.guestToken.until = 0; }

  async bearer() {
    if (this.guest === null) return undefined;
    if (this.guestToken && Date.now() + 60_000 < this.guestToken.until) return this.guestToken.token;
    let issued;
    try {
      // With the last token the server issues one for the same guest.
      issued = await call("POST", `${this.path}/guest-token`, { body: { display_name: this.guest }, bearer: this.guestToken?.token });
    } catch (error) {
      if (!this.guestToken || error.status !== 401) throw error;
      issued = await call("POST", `${this.path}/guest-token`, { body: { display_name: this.guest } });
    }
    this.guestToken = { token: issued.token, until: Date.now() + issued.expires_in * 1000 };
    return issued.token;
  }

  /** Requests the join token and the controller of the meeting. */
  async admit() {
    const joined = await call("GET", this.path, { bearer: await this.bearer() });
    return {
      meetingId: joined.meeting_id, name: joined.meeting_name, role: joined.role, token: joined.token,
      until: Date.now() + joined.expires_in * 1000, ...placeOf(joined.mc_assignment),
    };
  }

  /** Reports a controller that is silent (`suspect`) or was lost. Returns the one to dial, once the server decided; null when it
   *  names none. */
  async unreachable(admission, { reason, suspect = false }) {
    const path = `/api/v1/meetings/${encodeURIComponent(admission.meetingId)}/unreachable`;
    const body = { mc_id: admission.mcId, reason, ...(suspect ? { suspect } : {}) };
    try {
      const { mc_assignment } = await call("POST", path, { body, bearer: admission.token, limit: REPORT_LIMIT });
      return mc_assignment ? placeOf(mc_assignment) : null;
    } catch { return null; }
  }
}

/** Where a controller is, as the API says. */
const placeOf = ({ mc_id, webtransport_endpoint, certificate_hashes, generation }) =>
  ({ mcId: mc_id, url: webtransport_endpoint, hashes: (certificate_hashes ?? []).map(base64), generation });
