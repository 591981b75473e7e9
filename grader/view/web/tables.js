// @ts-check
// Scalar prefetch: the tables as numbers, with the cells that the index maps read at a step.

const WHOLE = 96;           // tables up to this many cells are shown whole
const NEAR = 48;            // cells of larger tables that are shown, around those that are read
const ROW = 12;             // cells of a one-dimensional table in a row

class TableView {
  /** @param {View.KernelView} kernel @param {View.PrefetchTable} table */
  constructor(kernel, table) {
    this.operand = kernel.operands[table.operand];
    this.cells = table.cells;
    this.reads = kernel.reads.filter((read) => read.table === table.operand).map((read) => ({
      label: kernel.operands[read.operand].label, first: sums(read.first), cell: read.cell,
    }));
    this.element = put("div", "table");
    this.element.dataset.table = this.operand.label;
    const head = put("p");
    head.append(put("b", "code", this.operand.label), put("span", "soft small code", ` ${this.operand.dtype}[${this.operand.shape.join(", ")}] `));
    this.grid = put("div", "cells");
    this.words = put("p", "soft small");
    this.element.append(head, this.grid, this.words);
    this.from = -1;
    /** @type {Map<number, HTMLElement>} */
    this.boxes = new Map();
    /** @type {HTMLElement[]} */
    this.lit = [];
    this.copied = this.operand.bytes ? ` (${bytesOf(this.operand.bytes)}, copied once)` : "";
    const { shape } = this.operand;
    this.columns = shape.length > 1 ? shape[shape.length - 1] : ROW;
    if (!this.cells) write(this.words, "its contents are not known before the run, or too many to show");
    else if (!this.reads.length && !table.untold.length) write(this.words, `no index map reads it${this.copied}`);
    this.untold = table.untold.map((operand) => kernel.operands[operand].label).join(", ");
    if (this.cells && this.untold && !this.reads.length) write(this.words, `${this.untold}: read in a way that can't be followed here${this.copied}`);
  }

  // Row-major, from whole rows; more than a few columns wrap.
  /** @param {number} from @param {number} to */
  build(from, to) {
    this.from = from;
    this.boxes = new Map();
    const across = Math.min(this.columns, ROW);
    this.grid.style.gridTemplateColumns = `repeat(${across}, minmax(0, 1fr))`;
    const boxes = [];
    for (let cell = from; cell < to; cell++) {
      const box = put("span", "", String(this.cells[cell]));
      box.title = this.name(cell);
      box.dataset.cell = String(cell);
      this.boxes.set(cell, box);
      boxes.push(box);
    }
    this.grid.replaceChildren(...boxes);
    this.lit = [];
  }

  /** @param {number} cell */
  name(cell) {
    return `[${indexOf(this.operand.shape, cell).join(", ")}]`;
  }

  /** @param {number} step */
  show(step) {
    if (!this.cells) return;
    const all = this.reads.map((read) => ({ label: read.label, cell: read.cell[upTo(read.first, step) - 1] }));
    const now = all.filter(({ cell }) => cell >= 0);  // -1: its condition does not hold
    const count = this.cells.length;
    if (count <= WHOLE) {
      if (this.from < 0) this.build(0, count);
    } else if (this.from < 0 || now.some(({ cell }) => !this.boxes.has(cell))) {
      const across = Math.min(this.columns, ROW);
      const least = now.length ? Math.min(...now.map(({ cell }) => cell)) : 0;
      const from = Math.max(0, Math.min(count - NEAR, Math.floor((least - NEAR / 4) / across) * across));
      this.build(from, Math.min(count, from + NEAR));
    }
    for (const box of this.lit) box.classList.remove("read");
    this.lit = now.map(({ cell }) => this.boxes.get(cell)).filter(Boolean);
    for (const box of this.lit) box.classList.add("read");
    if (all.length && !now.length) write(this.words, `not read for this step${this.copied}`);
    if (now.length) {
      const cells = new Map();
      now.forEach(({ cell, label }) => cells.set(cell, [...new Set([...(cells.get(cell) || []), label])]));
      const told = [...cells].map(([cell, labels]) => `${labels.join(", ")}: ${this.name(cell)} is ${this.cells[cell]}`);
      const cut = count > WHOLE ? ` (${commas(this.from)} to ${commas(this.from + this.boxes.size - 1)} of ${commas(count)} cells)` : "";
      const rest = this.untold ? `; ${this.untold}: not followed here` : "";
      write(this.words, `read for ${told.join("; ")}${rest}${cut}${this.copied}`);
    }
  }
}
