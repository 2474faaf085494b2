// Times for display. Countdowns use performance.now(); wall times are corrected to the clock of the server.
let skew = 0;

/** Estimates the clock skew to the server from a Date header (whole seconds). */
export function learnSkew(header) {
  const there = Date.parse(header ?? "");
  if (Number.isNaN(there)) return;
  const off = there + 500 - Date.now();
  skew = Math.abs(off) > 2_000 ? off : 0;
}

export const serverNow = () => Date.now() + skew;

/** A wall time from the wire: RFC 3339 text or milliseconds since 1970; null when there is none. */
export function wall(value) {
  if (value == null || value === "") return null;
  const ms = typeof value === "number" ? value : /^\d+$/.test(value) ? Number(value) : Date.parse(value);
  return Number.isFinite(ms) ? ms : null;
}

const two = (n) => String(n).padStart(2, "0");

/** Formats a countdown: tenths of seconds below a minute, minutes and seconds below an hour. */
export function countdown(ms) {
  if (ms == null) return "no end";
  if (ms <= 0) return "0.0 s";
  if (ms < 60_000) return `${(Math.floor(ms / 100) / 10).toFixed(1)} s`;
  const seconds = Math.floor(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${two(seconds % 60)} min`;
  return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)} h`;
}

/** How long something lasted. */
export function duration(ms) {
  if (ms < 0) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const parts = [[86_400_000, "d"], [3_600_000, "h"], [60_000, "min"], [1000, "s"]];
  const first = parts.findIndex(([size]) => ms >= size);
  const words = parts.slice(first, first + 2).map(([size, name], i) =>
    [Math.floor((i ? ms % parts[first][0] : ms) / size), name]);
  return words.filter(([n]) => n > 0).map(([n, name]) => `${n} ${name}`).join(" ");
}

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** A wall time, with the day when it is not today. */
export function moment(ms) {
  if (ms == null) return "–";
  const date = new Date(ms);
  const today = new Date(serverNow()).toDateString() === date.toDateString();
  return today ? clock.format(date) : `${day.format(date)}, ${clock.format(date)}`;
}

export const exact = (ms) => (ms == null ? "" : new Date(ms).toISOString());
export const timeOnly = (ms, fine) => clock.format(ms) + (fine ? `.${String(ms % 1000).padStart(3, "0")}` : "");
export const dayOnly = (ms) => day.format(ms);
