// @ts-check
// One card per operand: its type, its block, its buffers in VMEM, its bytes, its wrong elements.

const STATES = {
  in: ["▼ arrives", "moves"], out: ["▲ written back", "moves"], stays: ["stays", "held"],
  alone: ["not followed", ""], byHand: ["by hand", ""],
  came: ["▼ in flight", "moves"], goes: ["▲ in flight", "moves"], none: ["", ""],
};

/** @param {View.OperandView} operand */
const isTable = (operand) => operand.role === "scalar prefetch";
/** @param {View.OperandView} operand */
const isScratch = (operand) => operand.role === "scratch";
// It stays in HBM, and the kernel copies the parts that it needs.
/** @param {View.OperandView} operand */
const isByHand = (operand) => ["any", "hbm"].includes(operand.space);

// "3 × 2 blocks", of the dimensions that are cut.
/** @param {View.OperandView} operand */
const blocksOf = (operand) => {
  if (!operand.runs || operand.element) return "";
  const counts = operand.shape.map((size, axis) => Math.ceil(size / Math.max(operand.block[axis], 1)));
  const cut = counts.filter((count) => count > 1);
  return cut.length ? `, ${cut.map(commas).join(" × ")} blocks` : ", one block";
};

class Card {
  /** @param {View.OperandView} operand @param {number} steps */
  constructor(operand, steps) {
    this.operand = operand;
    this.runs = unpackRuns(operand, steps);
    this.element = put("article", "card");
    this.element.dataset.operand = operand.label;
    this.state = put("span", "state");
    const head = put("div", "row");
    head.append(put("h3", "code", operand.label), this.state);
    const type = put("p", "soft small");
    type.append(`${operand.role} `, put("span", "code", `${operand.dtype}[${operand.shape.join(", ")}]`), blocksOf(operand));
    this.element.append(head, type);
    this.picture = put("div", "picture");
    this.view = new ArrayView(operand, this.runs);
    const array = put("div", "hbm");
    array.append(put("span", "where-label", "HBM"), this.view.canvas);
    this.plane = put("span", "soft small plane");
    array.append(this.plane);
    this.picture.append(array);
    /** @type {Slot[]} */
    this.slots = [];
    if (this.runs) this.picture.append(...this.buffers());
    this.element.append(this.picture);
    this.counts = put("p", "counts small");
    this.element.append(this.counts);
    this.fillCounts();
    if (operand.note) this.element.append(put("p", "note small", operand.note));
    if (operand.wrong) this.element.append(this.wrongWords());
  }

  buffers() {
    const { operand } = this;
    this.arrow = put("span", "arrow");
    this.arrow.setAttribute("aria-hidden", "true");
    const chip = put("div", "chip");
    const many = Math.max(operand.windows, 1);
    const block = operand.block.map((size, axis) => (operand.squeezed.includes(axis) ? "·" : size));
    chip.append(put("span", "where-label", operand.space === "smem" ? "SMEM" : "VMEM"));
    for (let slot = 0; slot < many; slot++) {
      const box = put("div", "slot");
      const what = put("span", "soft small"), index = put("b", "code");
      box.append(index, what);
      chip.append(box);
      this.slots.push({ box, index, what });
    }
    const size = put("span", "soft small code", tuple(block));
    size.title = "block shape; · is a squeezed dimension";
    chip.append(size);
    return [this.arrow, chip];
  }

  fillCounts() {
    const { operand } = this;
    if (!operand.counted) return;
    if (!this.runs) {
      if (isByHand(operand)) this.counts.append(put("span", "", `${many(operand.moves, "DMA")}, ${bytesOf(operand.bytes)}`));
      return;
    }
    this.moves = put("b", "moves-now");
    this.bytes = put("b", "bytes-now");
    const total = put("span", "soft", ` of ${many(operand.moves, "move")}`);
    const size = put("span", "soft", ` of ${bytesOf(operand.bytes)}`);
    total.dataset.moves = String(operand.moves);
    const one = put("span"), other = put("span");
    one.append(this.moves, total);
    other.append(this.bytes, size);
    this.counts.append(one, other);
    if (operand.least && operand.bytes > operand.least) {
      const times = put("span", "refetch", `${(operand.bytes / operand.least).toFixed(1)}× the least`);
      times.title = "1×: each used block is moved once";
      this.counts.append(times);
    }
  }

  wrongWords() {
    const { wrong } = this.operand;
    const words = put("p", "wrong-words small");
    words.dataset.wrongBlocks = String(wrong.wrong_blocks);
    const label = put("label");
    const box = put("input");
    box.type = "checkbox";
    box.checked = true;
    box.addEventListener("change", () => {
      this.view.showWrong = box.checked;
      this.view.visits = -1;
      this.show(this.step, this.flying);
    });
    label.append(box, ` wrong: ${many(wrong.wrong, "element")} in ${commas(wrong.wrong_blocks)} of ${many(wrong.of_blocks, "block")}`);
    words.append(label);
    return words;
  }

  /** @param {number} scale @param {Look} look */
  lay(scale, look) {
    const room = this.element.clientWidth - 34 - (this.slots.length ? 138 : 0);
    this.view.lay(Math.max(room, 60), scale, look);
  }

  // `flying`: the copies in flight, "x_ref in", if the player goes through copies, turns or rows.
  /** @param {number} step @param {Set<string> | null} [flying] */
  show(step, flying = null) {
    this.step = step;
    this.flying = flying;
    const { operand, runs } = this;
    const comes = flying?.has(`${operand.label} in`), goes = flying?.has(`${operand.label} out`);
    /** @type {Fate} */
    const state = comes ? "in" : goes ? "out" : flying || !runs ? "stays" : stateOf(operand, runs, step);
    this.view.draw(step, state);
    if (!runs) {
      this.say(comes ? "came" : goes ? "goes" : isByHand(operand) ? "byHand" : "alone");
      return;
    }
    this.say(!flying ? state : comes ? "came" : goes ? "goes" : "none");
    if (this.moves) {
      const done = runs.done(step);
      write(this.moves, commas(operand.moves ? done : 0));
      writeBytes(this.bytes, runs.moved[done]);
    }
    if (this.view.layout.count > PLANES) {
      const plane = this.view.planeNumber(runs.start(runs.place[runs.run(step)]));
      write(this.plane, `plane ${tuple(indexOf(this.view.layout.array.outer, plane))}, one of ${commas(this.view.layout.count)}`);
    }
    this.fill(step, state);
  }

  /** @param {keyof typeof STATES} state */
  say(state) {
    const [words, look] = STATES[state];
    write(this.state, words);
    if (this.state.className !== `state ${look}`) this.state.className = `state ${look}`;
  }

  // The block in each buffer: runs use the buffers in turn.
  /** @param {number} step @param {Fate} state */
  fill(step, state) {
    const { operand, runs, slots } = this;
    const r = runs.run(step), n = slots.length;
    if (this.arrow) {
      write(this.arrow, runs.out ? "←" : "→");
      this.arrow.classList.toggle("on", state === "in" || state === "out" || this.soon(step));
    }
    slots.forEach((slot, number) => {
      let run = r - ((r - number) % n + n) % n, what = "", look = "empty";
      if (run === r) {
        [what, look] = state === "in" ? ["just in", "busy moves"] : state === "out" ? ["then out", "busy moves"] : ["in use", "busy"];
      } else if (n > 1 && this.soon(step) && (r + 1) % n === number) {
        run = r + 1;
        [what, look] = ["filling", "moves"];
      } else if (runs.out && run >= 0 && runs.last(run) === step - 1) {
        [what, look] = ["draining", "moves"];
      } else if (run >= 0) {
        [what, look] = ["old", "old"];
      }
      write(slot.index, look === "empty" ? "–" : blockWords(operand, runs.start(runs.place[run])));
      write(slot.what, what);
      const name = `slot ${look}`;
      if (slot.box.className !== name) slot.box.className = name;
    });
  }

  /** @param {number} step */
  soon(step) {
    const { operand, runs } = this;
    const r = runs.run(step);
    return Boolean(operand.moves) && !runs.out && r + 1 < runs.first.length && runs.first[r + 1] === step + 1;
  }

  // This step in a clause: "x_ref block (1, 4) arrives".
  /** @param {number} step @returns {Clause} */
  clause(step) {
    const { operand, runs } = this;
    if (!runs) return null;
    const state = stateOf(operand, runs, step);
    const block = blockWords(operand, runs.start(runs.place[runs.run(step)]));
    const verb = { in: "arrives", out: "is written back", stays: "stays" }[state];
    return { state, words: `${operand.label} ${operand.element ? "window" : "block"} ${block} ${verb}` };
  }
}

// One scale for all arrays of a kernel, so that equal dimensions are drawn alike.
/** @param {View.OperandView[]} operands */
const scaleOf = (operands) => {
  const longest = Math.max(1, ...operands.filter((operand) => !isTable(operand)).map((operand) => {
    const array = flat(operand);
    return Math.max(array.rows, array.columns);
  }));
  return LARGEST / longest;
};

// Scratch has no blocks and never moves: drawn at the same scale, all of it in VMEM.
/** @param {View.OperandView} operand @param {number} scale */
const scratchOf = (operand, scale) => {
  const array = flat(operand);
  const item = put("li");
  const box = put("i");
  /** @param {number} size */
  const pixels = (size) => `${Math.max(14, Math.min(size * scale, LARGEST))}px`;
  box.style.width = pixels(array.columns);
  box.style.height = pixels(array.rows);
  if (!operand.windows) box.className = "elsewhere";
  const elsewhere = operand.note || (operand.space === "smem" ? "in SMEM" : operand.space.replace("_mem", ""));
  const space = operand.windows ? "" : ` ${elsewhere}`;
  item.append(box, put("b", "code", operand.label), put("span", "soft small code", `${operand.dtype}[${operand.shape.join(", ")}]${space}`));
  return item;
};
