// The own camera and microphone: preview and choice. Nothing of it leaves the page.
import { h } from "./dom.js";

/** The devices of this page, kept from the lobby into the meeting. */
export class Devices {
  stream = null;
  chosen = { audio: "", video: "" };

  get supported() { return Boolean(navigator.mediaDevices?.getUserMedia); }

  /** Asks for camera and microphone; with only one of them it goes on with that. */
  async start() {
    const wanted = (id) => (id ? { deviceId: { exact: id } } : true);
    const { audio, video } = this.chosen;
    this.stop();
    const tries = [{ audio: wanted(audio), video: wanted(video) }, { video: wanted(video) }, { audio: wanted(audio) }];
    let failure;
    for (const constraints of tries) {
      try {
        this.stream = await navigator.mediaDevices.getUserMedia(constraints);
        return this.stream;
      } catch (error) {
        failure ??= error;
        if (error.name === "NotAllowedError") break;
      }
    }
    throw failure;
  }

  stop() {
    for (const track of this.stream?.getTracks() ?? []) track.stop();
    this.stream = null;
    this.meter?.();
    this.meter = null;
  }

  /** What is muted is not even recorded. */
  mute(audio, video) {
    for (const track of this.stream?.getAudioTracks() ?? []) track.enabled = !audio;
    for (const track of this.stream?.getVideoTracks() ?? []) track.enabled = !video;
  }

  /** Puts the picture into an element. */
  show(video) {
    if (video.srcObject !== this.stream) video.srcObject = this.stream;
  }

  async fill(select, kind, chosen) {
    const all = (await navigator.mediaDevices.enumerateDevices()).filter((device) => device.kind === kind);
    select.replaceChildren(...all.map((device, index) =>
      h("option", { value: device.deviceId, selected: device.deviceId === chosen }, device.label || `${kind === "videoinput" ? "Camera" : "Microphone"} ${index + 1}`)));
    select.disabled = all.length === 0;
    if (!all.length) select.append(h("option", { value: "" }, "none found"));
  }

  /** Shows how loud the microphone is, until stopped. */
  listen(meter) {
    this.meter?.();
    if (!this.stream?.getAudioTracks().length) return;
    const context = new AudioContext(), analyser = context.createAnalyser();
    context.createMediaStreamSource(this.stream).connect(analyser);
    const samples = new Float32Array(analyser.fftSize);
    const timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      meter.value = Math.min(1, 3 * Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length));
    }, 100);
    this.meter = () => { clearInterval(timer); context.close(); };
  }
}

const WHY = {
  NotAllowedError: "The browser was not allowed to use them. You can still join.",
  NotFoundError: "There is no camera and no microphone. You can still join.",
  NotReadableError: "Another program uses them. You can still join.",
};

/** The part of the lobby that shows and chooses them. */
export function preview(devices) {
  const video = h("video", { test: "preview", muted: true, autoplay: true, playsinline: true, hidden: true, "aria-label": "Your camera" });
  video.muted = true;
  const words = h("p", { test: "preview-words" }, devices.supported ? "Your camera is off." : "This browser gives no access to a camera here.");
  const camera = h("select", { id: "camera", test: "camera", disabled: true }, h("option", {}, "–"));
  const microphone = h("select", { id: "microphone", test: "microphone", disabled: true }, h("option", {}, "–"));
  const level = h("meter", { test: "level", min: 0, max: 1, value: 0, "aria-label": "Loudness of the microphone" });
  const button = h("button", { test: "preview-start", type: "button", disabled: !devices.supported, onclick: () => start() }, "Try camera and microphone");
  async function start() {
    button.disabled = true;
    try {
      const stream = await devices.start();
      const id = (tracks) => tracks[0]?.getSettings().deviceId;
      await devices.fill(camera, "videoinput", id(stream.getVideoTracks()));
      await devices.fill(microphone, "audioinput", id(stream.getAudioTracks()));
      devices.show(video);
      video.hidden = !stream.getVideoTracks().length;
      words.textContent = video.hidden ? "There is no camera." : "";
      devices.listen(level);
    } catch (error) {
      video.hidden = true;
      words.textContent = WHY[error.name] ?? `That did not work: ${error.message}`;
    } finally {
      button.disabled = false;
    }
  }
  const choose = (kind) => (event) => { devices.chosen[kind] = event.target.value; start(); };
  camera.addEventListener("change", choose("video"));
  microphone.addEventListener("change", choose("audio"));
  return h("section", { class: "card", "aria-label": "Camera and microphone" },
    h("div", { class: "picture" }, words, video),
    h("div", { class: "devices" },
      h("label", { class: "field", for: "camera" }, h("span", {}, "Camera"), camera),
      h("label", { class: "field", for: "microphone" }, h("span", {}, "Microphone"), microphone)),
    level, h("p", {}), button);
}
