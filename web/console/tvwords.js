// What becomes of sessions, in words that people understand.

/** A session on its way, by state. */
export const LIVE = {
  NEW: "Waiting for a tuner…", IDLE: "Waiting for a tuner…", STARTING: "Taking a tuner…", PRIMING: "Tuning in…", READY: "On air", DRAINING: "The programme is over", STOPPING: "Stopping…",
};
const OVER = ["STOPPED", "FAILED", "CANCELLED"];

/** Whether it still runs or is about to. */
export const onAir = (session) => !OVER.includes(session.state);

/** Why nothing could be started, or null when it was not refused. */
export function refused(session, tuners) {
  if (session.reasonDetail === "REJECTED_NO_TUNER") {
    const which = tuners === 1 ? "The only tuner is in use" : tuners === 2 ? "Both tuners are in use" : `All ${tuners} tuners are in use`;
    return `${which}; stop another channel first.`;
  }
  if (session.reasonDetail === "REJECTED_BUSY" || session.reason === "R_LEASE_BUSY") {
    return "This channel is already on in another quality. Watch that one, or stop it first.";
  }
  return null;
}

const ENDS = {
  R_CLIENT_STOP: "Stopped.",
  R_IDLE_TIMEOUT: "Nobody was watching, so the channel was stopped.",
  R_LEASE_EXPIRED: "The tuner was taken away, so the picture was stopped before anybody else could use it.",
  R_PROCESS_ENDED: "The picture ended by itself. Start the channel again.",
  R_PIPELINE_START_FAILED: "The picture could not be started.",
  R_TUNE_TIMEOUT: "The receiver did not answer in time.",
  R_TUNE_FAILED: "The receiver refused the channel.",
  R_PACKAGER_FAILED: "No picture came out of what the receiver sent.",
  R_UPSTREAM_CORRUPT: "What the receiver sends cannot be read.",
  R_CANCELLED: "The server was stopped. Start the channel again when it is back.",
  R_NOT_FOUND: "There is no such channel or recording.",
  R_BAD_REQUEST: "This quality is not configured.",
};
const CASES = {
  UPSTREAM_STALLED: "The receiver stopped sending, so the channel was ended.",
  UPSTREAM_ENDED: "The receiver ended the transmission.",
  FIRST_SEGMENT_TIMEOUT: "No picture came in time.",
  DISK_LIMIT: "The disk is full, or the picture grew too large.",
  END_OF_RECORDING: "The recording is over.",
  WORKER_RESTARTED: "The server was restarted in the middle of it. Start the channel again.",
};

/** Why it ended. */
export const ending = (session) => CASES[session.reasonDetail] ?? ENDS[session.reason] ?? (session.state === "STOPPED" ? "Stopped." : `It ended (${session.reason ?? session.state}).`);
