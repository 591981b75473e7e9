// @ts-check
// The predicted schedule: the core's actions, the copies in flight, the time of each position.

const LANE = 20, AXIS = 22;

// A time on the axis, with enough digits to distinguish neighbouring ticks.
/** @param {number} time @param {number} tick */
const tickWords = (time, tick) => {
  if (!time) return "0";
  const [unit, name] = time < 1e-6 ? [1e-9, "ns"] : time < 1e-3 ? [1e-6, "µs"] : [1e-3, "ms"];
  const digits = Math.max(0, -Math.floor(Math.log10(tick / unit) + 1e-9));
  return `${(time / unit).toFixed(digits)} ${name}`;
};

class TimelineView {
  /** @param {View.KernelView} kernel @param {Positions} positions */
  constructor(kernel, positions) {
    this.data = kernel.timeline;
    this.kernel = kernel;
    this.positions = positions;
    this.lanes = positions.lanes;
    this.bounds = positions.bounds;
    this.canvas = byId("timeline");
    this.zoom = this.bounds.length <= 20 ? "whole" : "near";
    this.step = 0;
    /** @type {number | null} */
    this.moment = null;
    // The upper row: the positions, or the turns of a loop that the player doesn't follow.
    this.marks = this.bounds;
    if (!this.tied && this.data?.turns.length > 1) this.marks = Int32Array.from([...sums(this.data.turns), this.data.cycles]);
  }

  // The player's positions have times.
  get tied() {
    return this.bounds.length > 1;
  }

  /** @param {Look} look */
  lay(look) {
    const none = !this.data;
    this.canvas.hidden = none;
    byId("zoom").hidden = none || !this.tied;
    const words = byId("timeline-words");
    byId("overlap").hidden = none || !this.data.by_hand.length;
    if (none) {
      this.point(null);
      write(words, `No timeline: ${this.kernel.untold}.`);
      return;
    }
    this.look = look;
    this.width = inner(this.canvas.parentElement);
    this.narrow = this.width < 560;
    this.left = this.narrow ? 0 : 128;
    this.nearby = this.narrow ? 3 : 6;
    this.lane = this.narrow ? LANE + 20 : LANE + 4;
    this.height = AXIS + (this.lanes.length + 1) * this.lane;
    this.context = sized(this.canvas, this.width, this.height);
    this.outof = hatch(this.context, look["gold-line"], look.gold, false);
    this.cache = null;
    const whole = timeOf(this.data.cycles / this.data.clock);
    const cut = this.data.until < this.data.cycles ? ` Only the first ${timeOf(this.data.until / this.data.clock)} are known in detail.` : "";
    write(byId("overlap"), overlapWords(this.data));
    byId("overlap").classList.toggle("turns", takesTurns(this.data));
    const loose = this.tied ? "" : ` It doesn't follow the slider: the turns of its loop aren't ${this.positions.words.many}.`;
    this.point(this.moment);
    write(words, `${whole} in all, ${commas(this.data.cycles)} cycles.${cut}${loose}`);
  }

  // Mark a moment, and describe it; null: none.
  /** @param {number | null} cycle */
  point(cycle) {
    this.moment = cycle;
    byId("moment").hidden = cycle === null;
    if (cycle === null) return;
    write(byId("moment"), momentWords(this.lanes, cycle, this.data.clock));
    this.show(this.step);
  }

  /** @param {number} x */
  cycleAt(x) {
    if (!this.data || x < this.left) return null;
    return this.from + (x - this.left) / (this.width - this.left) * (this.to - this.from);
  }

  /** @param {number} step */
  span(step) {
    if (!this.tied || this.zoom === "whole") return [0, this.data.cycles];
    const last = this.bounds.length - 2;
    const present = Math.min(step, last);
    const low = this.bounds[Math.max(0, present - this.nearby)];
    const high = this.bounds[Math.min(last + 1, present + this.nearby + 1)];
    const early = present - this.nearby < 0 ? 0 : low;
    return [early, present + this.nearby >= last && this.data.until >= this.data.cycles ? this.data.cycles : high];
  }

  /** @param {number} step */
  show(step) {
    this.step = step;
    if (!this.data) return;
    const c = this.context;
    const [from, to] = this.span(step);
    this.from = from;
    this.to = to;
    c.clearRect(0, 0, this.width, this.height);
    this.band(c, step);
    if (this.zoom === "whole") {
      if (!this.cache) {
        this.cache = document.createElement("canvas");
        this.body(sized(this.cache, this.width, this.height));
      }
      c.drawImage(this.cache, 0, 0, this.width, this.height);
    } else {
      this.body(c);
    }
    this.outline(c, step);
    if (this.moment !== null) {
      c.fillStyle = this.look.ink;
      c.fillRect(Math.round(this.x(this.moment)), AXIS - 6, 1.5, this.height - AXIS + 6);
    }
  }

  /** @param {number} cycle */
  x(cycle) {
    return this.left + (cycle - this.from) / Math.max(this.to - this.from, 1) * (this.width - this.left);
  }

  /** @param {Context} c */
  body(c) {
    const { look } = this;
    c.font = "12px system-ui, sans-serif";
    this.axis(c);
    this.label(c, !this.tied ? (this.marks.length ? "loop turn" : "") : { step: "grid step", turn: "loop turn", event: "event", row: "" }[this.positions.unit], 0);
    this.steps(c);
    this.lanes.forEach((lane, row) => {
      this.label(c, lane.name === "HBM" ? "HBM bus" : lane.name, row + 1);
      const top = this.top(row + 1);
      let edge = -1;
      for (let n = upTo(lane.end, this.from); n < lane.start.length && lane.start[n] < this.to; n++) {
        const left = Math.max(this.x(lane.start[n]), this.left), right = Math.min(this.x(lane.end[n]), this.width);
        if (right <= edge) continue;  // within a drawn pixel
        edge = Math.ceil(right * 2) / 2;
        c.fillStyle = this.fill(lane.kinds[lane.kind[n]]);
        c.fillRect(left, top, Math.max(right - left - (right - left > 4 ? 1 : 0), 0.7), LANE - 4);
        if (right - left > 4) this.edge(c, lane.kinds[lane.kind[n]], left, right, top);
        if (row < 2 && right - left > 60) this.inside(c, lane.kinds[lane.kind[n]], left, right, top);
      }
    });
    c.fillStyle = look.soft;
  }

  /** @param {Context} c @param {string} words @param {number} left @param {number} right @param {number} top */
  inside(c, words, left, right, top) {
    if (c.measureText(words).width > right - left - 8) return;
    c.fillStyle = this.look.ink;
    c.fillText(words, left + 5, top + 12);
  }

  // Distinguishes slices without colour: waiting is dashed, moves have a solid edge.
  /** @param {Context} c @param {string} kind @param {number} left @param {number} right @param {number} top */
  edge(c, kind, left, right, top) {
    if (kind.startsWith("computes") || kind.endsWith("in use")) return;
    const waits = kind.startsWith("waits") || kind.endsWith("yet");
    c.strokeStyle = waits ? this.look.soft : this.look["gold-line"];
    c.lineWidth = 1;
    c.setLineDash(waits ? [3, 3] : []);
    c.strokeRect(Math.round(left) + 0.5, top + 0.5, Math.max(Math.round(right - left) - 2, 1), LANE - 5);
    c.setLineDash([]);
  }

  /** @param {string} kind */
  fill(kind) {
    if (kind.startsWith("waits") || kind.endsWith("yet")) return this.look.grey;
    if (kind.endsWith(" in")) return this.look.gold;
    if (kind.endsWith(" out")) return this.outof;
    return this.look.blue;
  }

  /** @param {number} row */
  top(row) {
    return AXIS + row * this.lane + (this.narrow ? 19 : 2);
  }

  /** @param {Context} c @param {string} words @param {number} row */
  label(c, words, row) {
    c.fillStyle = this.look.soft;
    if (this.narrow) {
      c.fillText(words, 0, this.top(row) - 5);
      return;
    }
    let text = words;
    while (text.length > 4 && c.measureText(text).width > this.left - 10) text = `${text.slice(0, -2)}…`;
    c.fillText(text, 0, this.top(row) + 12);
  }

  /** @param {Context} c */
  steps(c) {
    const { look, marks: bounds } = this;
    const top = this.top(0);
    let edge = -1;
    for (let n = Math.max(0, upTo(bounds, this.from) - 1); n + 1 < bounds.length && bounds[n] < this.to; n++) {
      const left = Math.max(this.x(bounds[n]), this.left), right = Math.min(this.x(bounds[n + 1]), this.width);
      if (right <= edge) continue;
      edge = Math.ceil(right * 2) / 2;
      c.fillStyle = n % 2 ? look.grey : look.line;
      c.fillRect(left, top, Math.max(right - left, 0.7), LANE - 4);
      if (right - left > 12 + 7 * String(n + 1).length) {
        c.fillStyle = look.ink;
        c.fillText(commas(n + 1), left + 4, top + 12);
      }
    }
  }

  /** @param {Context} c */
  axis(c) {
    const { data, look } = this;
    const span = (this.to - this.from) / data.clock;
    const rough = span / (this.narrow ? 3 : 7);
    const power = 10 ** Math.floor(Math.log10(rough || 1));
    const tick = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    c.strokeStyle = look.line;
    c.fillStyle = look.soft;
    c.beginPath();
    for (let n = Math.ceil(this.from / data.clock / tick); n * tick * data.clock <= this.to; n++) {
      const x = Math.round(this.x(n * tick * data.clock)) + 0.5;
      c.moveTo(x, AXIS - 6);
      c.lineTo(x, this.height);
      const words = tickWords(n * tick, tick);
      if (x + c.measureText(words).width + 4 < this.width) c.fillText(words, x + 3, 12);
    }
    c.stroke();
  }

  // The span of the current position in pixels: left edge and width.
  /** @param {number} step @returns {Point} */
  present(step) {
    if (!this.tied || step + 1 >= this.bounds.length) return null;
    const left = Math.max(this.x(this.bounds[step]), this.left);
    return [left, Math.max(this.x(this.bounds[step + 1]) - left, 2)];
  }

  /** @param {Context} c @param {number} step */
  band(c, step) {
    const place = this.present(step);
    if (!place) return;
    c.globalAlpha = 0.14;
    c.fillStyle = this.look["blue-line"];
    c.fillRect(place[0], AXIS - 6, place[1], this.height - AXIS + 6);
    c.globalAlpha = 1;
  }

  /** @param {Context} c @param {number} step */
  outline(c, step) {
    const place = this.present(step);
    if (!place) return;
    const { look, bounds, positions: { unit } } = this;
    c.strokeStyle = look["blue-line"];
    c.lineWidth = 2;
    c.strokeRect(place[0], AXIS - 5, place[1], this.height - AXIS + 4);
    const from = timeOf(bounds[step] / this.data.clock), to = timeOf(bounds[step + 1] / this.data.clock);
    const verb = unit === "step" ? "computes" : "lasts";
    this.canvas.setAttribute("aria-label", `predicted timeline; ${unit} ${step + 1} ${unit === "event" ? `begins at ${from}` : `${verb} from ${from} to ${to}`}`);
  }

  // The player's position at a place in the canvas.
  /** @param {number} x */
  stepAt(x) {
    const cycle = this.cycleAt(x);
    if (cycle === null || !this.tied) return null;
    return Math.max(0, Math.min(upTo(this.bounds, cycle) - 1, this.bounds.length - 2));
  }
}
