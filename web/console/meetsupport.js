// What this browser can do in a meeting.

/** Whether this browser can receive media, and whether it can send it. */
export const canReceive = () => Boolean(globalThis.VideoDecoder && globalThis.AudioDecoder && globalThis.AudioWorkletNode && globalThis.OffscreenCanvas);
export const canSend = () => canReceive() && Boolean(globalThis.VideoEncoder && globalThis.AudioEncoder);

/** What it lacks, in sentences. */
export function missingParts() {
  const missing = [];
  if (!globalThis.WebTransport) missing.push("It has no WebTransport, so it cannot join: current versions of Chrome, Edge and Firefox have it.");
  if (!canReceive()) missing.push("It has no WebCodecs: you can chat, and neither see nor hear the others.");
  else if (!canSend()) missing.push("It cannot encode picture and sound: you see and hear the others, and they do not see or hear you.");
  if (!navigator.mediaDevices?.getUserMedia) missing.push("It gives no access to a camera or microphone here: you see and hear the others.");
  return missing;
}
