// Canvases of the control page: the LED strip, and the pad to draw on.

const HEADER = 6;

/** Draws the LEDs of a preview frame as two glowing rows. */
export class Strip {
  #canvas; #context; #pixels = null; #lamp = document.createElement("canvas");

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    const fit = () => {
      const { clientWidth, clientHeight } = canvas, density = Math.min(devicePixelRatio || 1, 2);
      canvas.width = Math.max(1, Math.round(clientWidth * density));
      canvas.height = Math.max(1, Math.round(clientHeight * density));
      this.draw();
    };
    new ResizeObserver(fit).observe(canvas);
  }

  /** Shows a preview frame: `L`, version, count, sequence number, then red, green, blue of each LED. */
  show(bytes) {
    if (bytes[0] !== 0x4c || bytes[1] !== 1) return;
    this.#pixels = bytes.subarray(HEADER);
    this.draw();
  }

  /** The average brightness. */
  get light() {
    if (!this.#pixels) return 0;
    return this.#pixels.reduce((sum, value) => sum + value, 0) / this.#pixels.length;
  }

  draw() {
    const { width, height } = this.#canvas, context = this.#context, pixels = this.#pixels;
    context.clearRect(0, 0, width, height);
    if (!pixels) return;
    const count = pixels.length / 3, half = Math.ceil(count / 2);
    // The glow: a small image of the colours, blurred by stretching it. Filters are too slow without a GPU.
    const lamp = this.#lamp;
    lamp.width = half;
    lamp.height = 2;
    const small = lamp.getContext("2d"), image = small.createImageData(half, 2);
    for (let i = 0; i < count; i++) image.data.set([pixels[i * 3], pixels[i * 3 + 1], pixels[i * 3 + 2], 255], i * 4);
    small.putImageData(image, 0, 0);
    context.globalAlpha = 0.38;
    context.imageSmoothingEnabled = true;
    context.drawImage(lamp, 0, 0, width, height);
    context.globalAlpha = 1;
    // Fade towards the edges.
    const edges = context.createLinearGradient(0, 0, 0, height);
    for (const [at, alpha] of [[0, 1], [0.32, 0.15], [0.68, 0.15], [1, 1]]) edges.addColorStop(at, `rgba(7,9,13,${alpha})`);
    context.fillStyle = edges;
    context.fillRect(0, 0, width, height);
    const step = width / half, size = Math.max(1, Math.min(step * 0.7, height / 5)), tall = Math.max(size, height / 11);
    for (let i = 0; i < count; i++) {
      const row = i < half ? 0 : 1, x = (i % half) * step + (step - size) / 2, y = height * (row ? 0.7 : 0.3) - tall / 2;
      context.fillStyle = `rgb(${pixels[i * 3]},${pixels[i * 3 + 1]},${pixels[i * 3 + 2]})`;
      context.fillRect(x, y, size, tall);
    }
  }
}

/** A pad on which strokes glow and fade. Each column is an LED. */
export class Pad {
  #canvas; #context; #glows = false; #heat = new Float32Array(320); #hue = new Float32Array(320); #last = null;

  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d");
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [Math.min(319, Math.max(0, ((event.clientX - box.left) / box.width) * 320)), Math.min(1, Math.max(0, (event.clientY - box.top) / box.height))];
    };
    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); this.#last = at(event); this.#stroke(this.#last, this.#last); });
    canvas.addEventListener("pointermove", (event) => { if (this.#last) { const now = at(event); this.#stroke(this.#last, now); this.#last = now; } });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => (this.#last = null));
  }

  #stroke([fromX, fromY], [toX, toY]) {
    this.#glows = true;
    const steps = Math.max(1, Math.ceil(Math.abs(toX - fromX)));
    for (let i = 0; i <= steps; i++) {
      const x = fromX + ((toX - fromX) * i) / steps, y = fromY + ((toY - fromY) * i) / steps;
      for (let d = -5; d <= 5; d++) {
        const led = Math.round(x) + d;
        if (led < 0 || led > 319) continue;
        this.#heat[led] = Math.max(this.#heat[led], 1 - Math.abs(d) / 6);
        this.#hue[led] = y;
      }
    }
  }

  /** Fades the strokes, draws the pad, and returns the pixels of the strip. */
  step(seconds) {
    if (!this.#glows) return new Uint8Array(960);
    this.#glows = false;
    const fade = Math.exp(-seconds * 1.1), pixels = new Uint8Array(960), { width, height } = this.#canvas;
    this.#context.clearRect(0, 0, width, height);
    for (let led = 0; led < 320; led++) {
      const heat = (this.#heat[led] *= fade);
      const [r, g, b] = colour(this.#hue[led], heat);
      pixels.set([r, g, b], led * 3);
      if (heat < 0.02) continue;
      this.#glows = true;
      this.#context.fillStyle = `rgb(${r},${g},${b})`;
      this.#context.fillRect((led * width) / 320, 0, width / 320 + 1, height);
    }
    return pixels;
  }
}

function colour(hue, value) {
  const part = (offset) => {
    const k = (offset + hue * 6) % 6;
    return Math.round(255 * value * (1 - Math.max(0, Math.min(k, 4 - k, 1))));
  };
  return [part(5), part(3), part(1)];
}
