// How much of a picture is encoded: pure functions of what the encoder and the handler report.

/** The most frames that may wait in an encoder. */
export const MAX_QUEUE = 2;
/** The most that frames may be late at the handler, in milliseconds. */
const MAX_LAG = 200;
const DOWN = 0.8, UP = 1.05;
/** Below this share of its bitrate, a picture has fewer renditions instead. */
const LEAST = 0.4;
/** Seconds without pressure before a rendition comes back. */
const CALM = 10;

/** Renditions of a picture with this many lines: index 0 is the lowest. */
export function renditionsFor(width, height, { screen = false, fps = 30 } = {}) {
  const even = (value) => Math.max(2, Math.round(value / 2) * 2);
  const sizes = screen ? [[1080, 1_500_000]] : [[180, 150_000], [360, 500_000], [720, 1_500_000]];
  const fitting = sizes.filter(([lines], index) => index === 0 || lines <= height * 1.1);
  return fitting.map(([lines, bitrate], index) => {
    const scale = Math.min(1, lines / height);
    return { index, width: even(width * scale), height: even(height * scale), max_bitrate: bitrate, max_fps: index === 0 && !screen ? Math.min(fps, 15) : fps };
  });
}

export const calm = () => ({ scale: 1, renditions: Infinity, calm: 0 });

/** The next state after a second with this many frames waiting and this lag, of a picture with `count` renditions. */
export function adapt(state, { queue, lag }, count) {
  const most = Math.min(state.renditions, count);
  if (queue > MAX_QUEUE || lag > MAX_LAG) {
    if (state.scale * DOWN >= LEAST) return { scale: state.scale * DOWN, renditions: most, calm: 0 };
    return { scale: most > 1 ? 1 : state.scale, renditions: Math.max(1, most - 1), calm: 0 };
  }
  if (state.scale < 1) return { ...state, scale: Math.min(1, state.scale * UP), calm: 0 };
  if (most < count && state.calm + 1 >= CALM) return { scale: LEAST / DOWN, renditions: most + 1, calm: 0 };
  return { ...state, calm: state.calm + 1 };
}
