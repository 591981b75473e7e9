// @ts-check
// An operand's array in HBM: its blocks, the visited ones, the current one, wrong elements.

// The move of a step's block: "in", "out", or none ("stays").
/** @type {(operand: View.OperandView, runs: OperandRuns, step: number) => Fate} */
const stateOf = (operand, runs, step) => {
  if (!operand.moves) return "stays";
  const r = runs.run(step);
  if (runs.out) return runs.last(r) === step ? "out" : "stays";
  return runs.first[r] === step ? "in" : "stays";
};

// For each cell of a result, the number of its block; -1 if no step writes it.
/** @type {(operand: View.OperandView, runs: OperandRuns) => Int32Array | null} */
const writtenBy = (operand, runs) => {
  const { wrong, element } = operand;
  if (element || wrong.cells.length !== runs.rank) return null;
  const places = new Map(Array.from(runs.visited, (_, place) => [runs.start(place).join(), place]));
  const found = new Int32Array(wrong.share.length);
  for (let number = 0; number < found.length; number++) {
    const start = indexOf(wrong.cells, number).map((cell, axis) => {
      const each = Math.ceil(wrong.block[axis] / wrong.size[axis]);
      return Math.floor(cell / each) * wrong.block[axis];
    });
    found[number] = places.get(start.join()) ?? -1;
  }
  return found;
};

class ArrayView {
  /** @param {View.OperandView} operand @param {OperandRuns} runs */
  constructor(operand, runs) {
    this.operand = operand;
    this.runs = runs;
    this.canvas = put("canvas", "array");
    this.canvas.setAttribute("aria-hidden", "true");  // the step's sentence says what it shows
    this.under = document.createElement("canvas");
    this.showWrong = true;
    this.visits = -1;  // shown by the layer below; -1 if it is empty
    this.plane = 0;    // the plane that it shows, if the array has too many
    this.written = operand.wrong && runs ? writtenBy(operand, runs) : null;
  }

  /** @param {number} room @param {number} scale @param {Look} look */
  lay(room, scale, look) {
    this.look = look;
    this.layout = layoutOf(this.operand, room, scale);
    this.context = sized(this.canvas, this.layout.whole[0] + 2, this.layout.whole[1] + 2);
    this.below = sized(this.under, this.layout.whole[0] + 2, this.layout.whole[1] + 2);
    this.hatchIn = hatch(this.context, look["gold-line"], look.gold, true);
    this.hatchOut = hatch(this.context, look["gold-line"], look.gold, false);
    this.visits = -1;
  }

  /** @param {number[]} start @param {number} plane @returns {Box} */
  rectangle(start, plane) {
    const { layout } = this;
    const found = extent(this.operand, layout, start);
    const [x, y] = layout.corner(plane);
    return [x + 1 + layout.x(found.column), y + 1 + layout.y(found.row),
      layout.x(found.columns), layout.y(found.rows)];
  }

  /** @param {number[]} start */
  planesOf(start) {
    const { planes } = extent(this.operand, this.layout, start);
    return this.layout.count > PLANES ? [0] : planes;
  }

  /** @param {number[]} start */
  planeNumber(start) {
    return extent(this.operand, this.layout, start).planes[0];
  }

  // The layer that grows with the steps: background, moved blocks, lines, wrong elements.
  /** @param {number} visits @param {number} plane */
  drawUnder(visits, plane) {
    const { below: c, layout, look, runs, operand } = this;
    const single = layout.count > PLANES;
    const fresh = this.visits < 0 || visits < this.visits || (single && plane !== this.plane);
    if (fresh) {
      c.clearRect(0, 0, layout.whole[0] + 2, layout.whole[1] + 2);
      this.background(c);
      this.visits = 0;
      this.plane = plane;
    }
    c.fillStyle = look.visited;
    for (let place = this.visits; runs && place < visits; place++) {
      const start = runs.start(place);
      if (single && this.planeNumber(start) !== plane) continue;
      for (const each of this.planesOf(start)) {
        const [x, y, w, h] = this.rectangle(start, each);
        c.fillRect(x, y, Math.max(w, 0.5), Math.max(h, 0.5));
      }
    }
    if (operand.wrong && this.showWrong) this.wrong(c, plane, fresh ? -1 : this.visits, visits);
    if (fresh || visits !== this.visits) this.lines(c);
    this.visits = visits;
  }

  /** @param {Context} c */
  background(c) {
    const { layout, look } = this;
    for (let plane = 0; plane < layout.planes; plane++) {
      const [x, y] = layout.corner(plane);
      c.fillStyle = look.grey;
      c.fillRect(x + 1, y + 1, layout.width, layout.height);
      if (layout.label) {
        c.fillStyle = look.soft;
        c.font = "10px ui-monospace, monospace";
        c.fillText(indexOf(layout.array.outer, plane).join(","), x + 1, y - 2);
      }
    }
    if (!this.runs) {
      c.fillStyle = hatch(c, look.line, look.grey, true);
      for (let plane = 0; plane < layout.planes; plane++) {
        const [x, y] = layout.corner(plane);
        c.fillRect(x + 1, y + 1, layout.width, layout.height);
      }
    }
  }

  /** @param {Context} c */
  lines(c) {
    const { layout, look, operand } = this;
    const { array } = layout;
    const wide = layout.x(array.blockColumns), high = layout.y(array.blockRows);
    c.strokeStyle = look.line;
    c.lineWidth = 1;
    for (let plane = 0; plane < layout.planes; plane++) {
      const [left, top] = layout.corner(plane);
      c.beginPath();
      if (wide >= FINEST && !operand.element) {
        for (let column = array.blockColumns; column < array.columns; column += array.blockColumns) {
          const x = Math.round(left + layout.x(column)) + 0.5;
          c.moveTo(x, top + 1);
          c.lineTo(x, top + 1 + layout.height);
        }
      }
      if (high >= FINEST && !operand.element) {
        for (let row = array.blockRows; row < array.rows; row += array.blockRows) {
          const y = Math.round(top + layout.y(row)) + 0.5;
          c.moveTo(left + 1, y);
          c.lineTo(left + 1 + layout.width, y);
        }
      }
      c.stroke();
      c.strokeRect(left + 1, top + 1, layout.width, layout.height);
    }
  }

  // Cells of wrong elements, redder with more of them, crossed if one is NaN. Only cells of blocks
  // that no step writes, and of blocks that have gone out: numbers `least` to `end`.
  /** @param {Context} c @param {number} only @param {number} least @param {number} end */
  wrong(c, only, least, end) {
    const { layout, look, written, operand: { wrong } } = this;
    const rank = wrong.cells.length;
    const rows = rank > 1 ? wrong.cells[rank - 2] : 1, columns = rank ? wrong.cells[rank - 1] : 1;
    const nan = new Set(wrong.nan);
    const cross = hatch(c, look.page, look.nan, true);
    /** @param {number} axis @param {number} cells */
    const edges = (axis, cells) => cellEdges(wrong, axis, cells);
    const ys = rank > 1 ? edges(rank - 2, rows) : [0, 1], xs = rank ? edges(rank - 1, columns) : [0, 1];
    for (let number = 0; number < wrong.share.length; number++) {
      const share = wrong.share[number];
      if (!share || (written && (written[number] < least || written[number] >= end))) continue;
      const column = number % columns, row = Math.floor(number / columns) % rows;
      const plane = Math.floor(number / columns / rows);
      if (layout.count > PLANES ? plane !== only : plane >= layout.planes) continue;
      const [x, y] = layout.corner(layout.count > PLANES ? 0 : plane);
      /** @param {number} from @param {number} to */
      const edge = (from, to) => [Math.round(from), Math.max(Math.round(to) - Math.round(from), 1)];
      const [left, w] = edge(x + 1 + layout.x(xs[column]), x + 1 + layout.x(xs[column + 1]));
      const [top, h] = edge(y + 1 + layout.y(ys[row]), y + 1 + layout.y(ys[row + 1]));
      c.globalAlpha = nan.has(number) ? 1 : 0.25 + 0.75 * share / 100;
      c.fillStyle = nan.has(number) ? cross : look.red;
      c.fillRect(left, top, w, h);
    }
    c.globalAlpha = 1;
  }

  /** @param {number} step @param {Fate} state */
  draw(step, state) {
    const { runs, context: c, look, layout } = this;
    if (!runs) {
      this.drawUnder(0, 0);
      this.copy(c);
      return;
    }
    const r = runs.run(step), start = runs.start(runs.place[r]);
    this.drawUnder(upTo(runs.visited, step), this.planeNumber(start));
    this.copy(c);
    const soon = !runs.out && r + 1 < runs.first.length && runs.first[r + 1] === step + 1;
    if (soon) this.outline(c, runs.start(runs.place[r + 1]), start);
    for (const plane of this.planesOf(start)) {
      const [x, y, w, h] = grown(this.rectangle(start, plane), layout, layout.corner(plane));
      c.fillStyle = state === "in" ? this.hatchIn : state === "out" ? this.hatchOut : look.blue;
      c.globalAlpha = this.operand.wrong && this.showWrong ? 0.35 : 1;
      c.fillRect(x, y, w, h);
      c.globalAlpha = 1;
      c.strokeStyle = state === "stays" ? look["blue-line"] : look["gold-line"];
      c.lineWidth = 2;
      c.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), Math.max(h - 2, 1));
    }
  }

  /** @param {Context} c */
  copy(c) {
    const { layout } = this;
    c.clearRect(0, 0, layout.whole[0] + 2, layout.whole[1] + 2);
    c.drawImage(this.under, 0, 0, layout.whole[0] + 2, layout.whole[1] + 2);
  }

  /** @param {Context} c @param {number[]} start @param {number[]} present */
  outline(c, start, present) {
    if (this.layout.count > PLANES && this.planeNumber(start) !== this.planeNumber(present)) return;
    c.save();
    c.setLineDash([4, 3]);
    c.strokeStyle = this.look["gold-line"];
    c.lineWidth = 2;
    for (const plane of this.planesOf(start)) {
      const [x, y, w, h] = grown(this.rectangle(start, plane), this.layout, this.layout.corner(plane));
      c.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), Math.max(h - 2, 1));
    }
    c.restore();
  }
}
