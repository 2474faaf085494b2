// Which codec a picture is sent with: H.264 where the browser encodes it, else VP9.

const CANDIDATES = [
  { codec: "avc1.42E01F", avc: { format: "annexb" } },
  { codec: "avc1.42001F", avc: { format: "annexb" } },
  { codec: "vp09.00.31.08" },
];
/** A screen has more lines than the level above allows. */
const SCREEN = [{ codec: "avc1.42E028", avc: { format: "annexb" } }, { codec: "vp09.00.40.08" }];

/** What an encoder is configured with for a rendition. */
export const encoderConfig = (choice, rendition, scale = 1) => ({
  ...choice, width: rendition.width, height: rendition.height, bitrate: Math.round(rendition.max_bitrate * scale), framerate: rendition.max_fps,
  latencyMode: "realtime", bitrateMode: "variable",
});

/** The first codec that this browser encodes all renditions with, or null. */
export async function chooseCodec(renditions, { screen = false } = {}) {
  if (!globalThis.VideoEncoder) return null;
  for (const choice of screen ? SCREEN : CANDIDATES) {
    const answers = await Promise.all(renditions.map((rendition) =>
      VideoEncoder.isConfigSupported(encoderConfig(choice, rendition)).then(({ supported }) => supported, () => false)));
    if (answers.every(Boolean)) return choice;
  }
  return null;
}
