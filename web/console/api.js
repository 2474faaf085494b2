// Calls to the server. Responses are converted to plain values here and nowhere else.
import { learnSkew, wall } from "./time.js";

/** Why a call failed. `code` is the stable error code; NETWORK without a response. */
export class Refusal extends Error {
  constructor(status, code, body = {}) {
    super(body.detail || body.title || code);
    Object.assign(this, { status, code, detail: body.detail ?? "", requestId: body.requestId ?? "", body });
  }
}

const WORDS = {
  NETWORK: "The server did not respond. It may be stopped, restarting or unreachable.",
  UNAUTHENTICATED: "You are signed out. Sign in again.",
  LOGIN_FAILED: "Sign-in failed: a sign-in link works once and for ten minutes. Run “tenure login” for a new one, or check the token.",
  FORBIDDEN: "Your token does not allow this.",
  RESERVED_KEY: "This key belongs to one of Tenure's own services. Only its service may release or transfer it; an admin may revoke it.",
  ORIGIN_REFUSED: "The origin of this page is not allowed. Open the link that “tenure up” printed, or add this origin to allowed_origins.",
  STALE_GENERATION: "The lease has a new holder, so nothing was changed. Check the current holder and try again.",
  NOT_HELD: "The lease is not held with this token and generation.",
  NO_SUCCESSOR: "The successor is not waiting for this key. It must first wait in an acquire with exactly this holder name.",
  TOKEN_SPENT: "This token was already used for a lease that has ended. A token is valid for one lease only.",
  BUSY: "Another holder has the lease.",
  LEASE_BUSY: "This channel is being started by another client. Try again in a moment.",
  ADMISSION_SESSIONS_FULL: "Too many sessions were started in the last day: see [sessions] max_records in the settings.",
  ADMISSION_NO_TUNERS: "No tuner is configured: see [sessions] tuner_slots in the settings.",
  INVALID_REQUEST: "The server did not accept one of the values.",
  RATE_LIMITED: "Too many requests with this token. Wait a moment.",
  TOO_MANY: "A limit of the server is reached.",
  UNAVAILABLE: "The store is unavailable. The request had no effect; try again later.",
  SHUTTING_DOWN: "The server is shutting down. The request had no effect.",
  UNKNOWN_OUTCOME: "The store did not confirm in time, so the outcome is unknown. Check the lease before you try again.",
  INTERNAL: "Internal server error. The log of the server has details under the request id.",
};

/** The text of an error, with the detail of the server where it is useful. */
export function explain(error) {
  if (!(error instanceof Refusal)) return String(error?.message ?? error);
  const words = WORDS[error.code];
  if (!words) return error.detail || `Server error ${error.code}.`;
  return ["INVALID_REQUEST", "TOO_MANY", "FORBIDDEN", "INTERNAL", "UNAVAILABLE"].includes(error.code) && error.detail
    ? `${words} (${error.detail})` : words;
}

let onUnauthorized = () => {};
/** Called when the session is no longer valid. */
export const whenUnauthorized = (action) => (onUnauthorized = action);

async function call(method, path, { query, body, quiet, any } = {}) {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value != null && value !== "");
  const url = entries.length ? `${path}?${new URLSearchParams(entries)}` : path;
  const sent = performance.now();
  let response, data;
  try {
    response = await fetch(url, {
      method, credentials: "same-origin", cache: "no-store", signal: AbortSignal.timeout(10_000),
      headers: body ? { accept: "application/json", "content-type": "application/json" } : { accept: "application/json" },
      body: body && JSON.stringify(body),
    });
    const raw = await response.text();
    try { data = raw ? JSON.parse(raw) : {}; } catch { data = { detail: raw.slice(0, 300) }; }
  } catch (cause) {
    // A change without a response may have happened: never claim that it did not.
    throw new Refusal(0, method === "GET" || path === "/login" ? "NETWORK" : "UNKNOWN_OUTCOME", { detail: String(cause) });
  }
  learnSkew(response.headers.get("date"));
  if (response.ok || any) return { data, status: response.status, took: [sent, performance.now()] };
  const refusal = new Refusal(response.status, data.code ?? `HTTP ${response.status}`, data);
  if (response.status === 401 && !quiet) onUnauthorized();
  throw refusal;
}

/** A lease as the views use it. `deadline` is on the clock of performance.now(); the response was true at some instant
 *  between sending and receiving, so the real one lies between `earliest` and `deadline`. */
function lease(item, [sent, received]) {
  const ends = (at) => (item.remaining_ms == null || item.state === "free" ? null : at + item.remaining_ms);
  return {
    key: item.key, state: item.state ?? "held", holder: item.holder ?? "", generation: item.generation ?? "",
    earliest: ends(sent), deadline: ends(received), remaining: item.remaining_ms ?? null, meta: item.meta ?? "", since: wall(item.since), waiters: item.waiters ?? null,
  };
}

export async function list(prefix, after, limit) {
  const { data, took } = await call("GET", "/v1/leases", { query: { prefix, after, limit } });
  return { items: (data.items ?? []).map((item) => lease(item, took)), next: data.next ?? null, revision: data.revision };
}

export async function one(key) {
  const { data, took } = await call("GET", "/v1/leases/one", { query: { key } });
  return lease({ key, ...data }, took);
}

export async function history(key) {
  const { data } = await call("GET", "/v1/leases/history", { query: { key } });
  return (data.reigns ?? []).map((reign) => ({ ...reign, from: wall(reign.from), until: wall(reign.until), end: reign.end || null }));
}

export const watchUrl = (prefix, from) =>
  `/v1/leases/watch?${new URLSearchParams([["prefix", prefix], ...(from ? [["from", from]] : [])])}`;

const act = (verb) => async (body) => (await call("POST", `/v1/leases/${verb}`, { body })).data;
export const revoke = act("revoke");
export const release = act("release");
export const transfer = act("transfer");

/** Polling: the nodes with their targets; one target, its results, its owners; pause, resume. */
const target = (id, what = "") => `/poll/v1/targets/${encodeURIComponent(id)}${what && `/${what}`}`;
export const pollNodes = async () => (await call("GET", "/poll/v1/nodes")).data;
export const pollTarget = async (id) => (await call("GET", target(id))).data;
export const pollResults = async (id) => (await call("GET", target(id, "results"))).data.results ?? [];
export const pollHistory = async (id) => ((await call("GET", target(id, "history"))).data.reigns ?? []).map((reign) => ({ ...reign, holder: reign.owner, end: reign.end || null }));
export const pollWrite = async (method, id, what) => (await call(method, target(id, what))).data;

/** Operations of meetings: nodes and drains, running meetings, the last moves, and orders. */
export const meetNodes = async () => (await call("GET", "/api/v1/admin/nodes")).data;
export const meetRunning = async () => (await call("GET", "/api/v1/admin/meetings", { query: { limit: 200 } })).data;
export const meetMoves = async () => (await call("GET", "/api/v1/admin/moves")).data.items ?? [];
export const meetOrder = async (path, body) => (await call("POST", `/api/v1/admin/${path}`, { body })).data;

/** TV: channels, running sessions, start, stop, one session, heartbeat. */
const tv = (id, what = "") => `/api/v3/sessions/${encodeURIComponent(id)}${what && `/${what}`}`;
export const tvChannels = async () => (await call("GET", "/api/v3/channels")).data;
export const tvSessions = async () => (await call("GET", "/api/v3/sessions", { query: { live: true, limit: 1000 } })).data.sessions ?? [];
export const tvStart = async (body) => (await call("POST", "/api/v3/intents", { body })).data;
export const tvStop = (sessionId) => tvStart({ type: "stream.stop", sessionId });
export const tvBeat = async (id) => (await call("POST", tv(id, "heartbeat"))).data;
/** A session, running or ended. */
export async function tvSession(id) {
  const { data, status } = await call("GET", tv(id), { any: true });
  if (status === 200) return data;
  if (status === 410) return { sessionId: id, state: data.state, reason: data.reason, reasonDetail: data.reason_detail };
  if (status === 401) onUnauthorized();
  throw new Refusal(status, data.code ?? `HTTP ${status}`, data);
}

export const login = (body) => call("POST", "/login", { body, quiet: true });
export const logout = () => call("POST", "/logout", { quiet: true });

/** The signed-in user: `can(level)` checks for a scope of the lease area. */
export async function whoami(quiet = true) {
  const { data } = await call("GET", "/whoami", { quiet });
  const scopes = typeof data.scopes === "string" ? data.scopes.split(/[\s,]+/) : data.scopes ?? [];
  const levels = ["read", "write", "admin"];
  const mine = Math.max(...scopes.map((scope) => (scope.startsWith("lease:") ? levels.indexOf(scope.slice(6)) : -1)), -1);
  return { name: data.name ?? "", scopes, can: (level) => mine >= levels.indexOf(level) };
}

/** Readiness, also of a server that is not ready (503). */
export async function health() {
  const { data, status } = await call("GET", "/health/ready", { quiet: true, any: true });
  return { ready: status === 200, data };
}
