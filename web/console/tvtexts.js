// Texts for session states and reasons.

/** Texts of active sessions, by state. */
export const LIVE = {
  NEW: "Waiting for a tuner…", IDLE: "Waiting for a tuner…", STARTING: "Taking a tuner…", PRIMING: "Tuning in…", READY: "On air", DRAINING: "The programme is over", STOPPING: "Stopping…",
};
const OVER = ["STOPPED", "FAILED", "CANCELLED"];

/** Whether the session has not ended. */
export const onAir = (session) => !OVER.includes(session.state);

/** Why the start was rejected, or null if it was not. */
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
  R_IDLE_TIMEOUT: "The channel was stopped because no one was watching.",
  R_LEASE_EXPIRED: "The tuner lease was lost, so the stream was stopped.",
  R_PROCESS_ENDED: "The stream ended unexpectedly. Start the channel again.",
  R_PIPELINE_START_FAILED: "The stream could not be started.",
  R_TUNE_TIMEOUT: "The receiver did not answer in time.",
  R_TUNE_FAILED: "The receiver refused the channel.",
  R_PACKAGER_FAILED: "The receiver's data could not be turned into a stream.",
  R_UPSTREAM_CORRUPT: "The receiver's data is unreadable.",
  R_CANCELLED: "The server was stopped. Start the channel again when it is back.",
  R_NOT_FOUND: "The channel or recording does not exist.",
  R_BAD_REQUEST: "This quality is not configured.",
};
const CASES = {
  UPSTREAM_STALLED: "The receiver stopped sending, so the channel was stopped.",
  UPSTREAM_ENDED: "The receiver ended the transmission.",
  FIRST_SEGMENT_TIMEOUT: "The stream did not start in time.",
  DISK_LIMIT: "The disk is full, or the output grew too large.",
  END_OF_RECORDING: "The recording is over.",
  WORKER_RESTARTED: "The server was restarted. Start the channel again.",
};

/** Why it ended. */
export const ending = (session) => CASES[session.reasonDetail] ?? ENDS[session.reason] ?? (session.state === "STOPPED" ? "Stopped." : `It ended (${session.reason ?? session.state}).`);
