// @ts-check
// The document's numbers, unpacked once: running sums, blocks at each step; times and sizes in words.

/** @param {number[]} differences */
const sums = (differences) => {
  const found = new Int32Array(differences.length);
  let sum = 0;
  differences.forEach((each, i) => { found[i] = sum += each; });
  return found;
};

// The number of entries of a sorted list that are at most `value`.
/** @param {Numbers} list @param {number} value */
const upTo = (list, value) => {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= value) low = middle + 1; else high = middle;
  }
  return low;
};

// One operand over the grid: its runs, and the bytes moved up to each of them.
/** @param {View.OperandView} operand @param {number} steps */
const unpackRuns = (operand, steps) => {
  if (!operand.runs) return null;
  const { place, starts, sizes } = operand.runs;
  const first = sums(operand.runs.first);
  const rank = operand.shape.length;
  const moved = new Float64Array(first.length + 1), least = new Float64Array(first.length + 1);
  /** @type {number[]} */
  const firstVisit = [];
  first.forEach((_, r) => {
    const fresh = place[r] === firstVisit.length;
    if (fresh) firstVisit.push(r);
    moved[r + 1] = moved[r] + sizes[place[r]];
    least[r + 1] = Math.min(operand.least, least[r] + (fresh ? sizes[place[r]] : 0));
  });
  const out = operand.role === "output";
  /** @param {number} r */
  const last = (r) => (r + 1 < first.length ? first[r + 1] : steps) - 1;
  const visited = Int32Array.from(firstVisit, (r) => (out ? last(r) : first[r]));
  return {
    first, place, rank, out, last, visited,
    /** @param {number} step */
    run: (step) => upTo(first, step) - 1,
    /** @param {number} number */
    start: (number) => starts.slice(number * rank, (number + 1) * rank),
    moved, least,
    // The runs whose bytes have moved by the end of a step. Outputs move after a run's last step.
    /** @param {number} step */
    done(step) {
      const r = this.run(step);
      return out && last(r) > step ? r : r + 1;
    },
  };
};

/** @param {number[]} grid @param {number} step */
const indexOf = (grid, step) => {
  const index = [];
  for (let axis = grid.length - 1; axis >= 0; axis--) {
    index.unshift(step % grid[axis]);
    step = Math.floor(step / grid[axis]);
  }
  return index;
};

/** @param {(number | string)[]} numbers */
const tuple = (numbers) => `(${numbers.join(", ")}${numbers.length === 1 ? "," : ""})`;

// The index of the block that begins at `start`; for pl.Element windows, their start.
/** @param {View.OperandView} operand @param {number[]} start */
const blockWords = (operand, start) => {
  if (operand.element) return `at ${tuple(start)}`;
  return tuple(start.map((at, axis) => Math.floor(at / Math.max(operand.block[axis], 1))));
};

/** @param {number} size */
const bytesOf = (size) => {
  let unit = "B";
  for (const next of ["KiB", "MiB", "GiB"]) {
    if (size < 1024) break;
    size /= 1024;
    unit = next;
  }
  const digits = size >= 99.95 || Number.isInteger(size) ? 0 : size >= 9.995 ? 1 : 2;
  return `${size.toFixed(digits)} ${unit}`;
};

/** @param {number} seconds */
const timeOf = (seconds) => {
  /** @param {number} value */
  const three = (value) => (value >= 99.95 ? value.toFixed(0) : value.toPrecision(3));
  if (seconds < 1e-6) return `${three(seconds * 1e9)} ns`;
  if (seconds < 1e-3) return `${three(seconds * 1e6)} µs`;
  return `${three(seconds * 1e3)} ms`;
};

/** @param {number} number */
const commas = (number) => number.toLocaleString("en-US");
/** @param {number} number @param {string} one */
const many = (number, one) => `${commas(number)} ${one}${number === 1 ? "" : "s"}`;

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string} [text]
 */
const put = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

// The pixels inside an element's padding.
/** @param {Element} element */
const inner = (element) => {
  const style = getComputedStyle(element);
  return element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
};

/**
 * @template {string} Name
 * @param {Name} name
 * @returns {Name extends keyof Elements ? Elements[Name] : HTMLElement}
 */
const byId = (name) => /** @type {any} */ (document.getElementById(name));

// Sets the text only if it has changed: most of the page stays the same from step to step.
/** @param {Element} element @param {string} text */
const write = (element, text) => {
  if (element.textContent !== text) element.textContent = text;
};

/** @param {HTMLElement} element @param {number} size */
const writeBytes = (element, size) => {
  write(element, bytesOf(size));
  element.dataset.bytes = String(size);
  element.title = `${commas(size)} bytes`;
};
