// @ts-check
// The layout of arrays on a canvas: scale, planes, blocks; and colours and patterns.

const PLANES = 64;          // arrays with more planes show only the current one
const FINEST = 4;           // pixels: smaller blocks have no lines between them
const SEEN = 6;             // pixels: smallest size of the current block
const LARGEST = 168;        // pixels of a kernel's longest dimension

const colours = () => {
  const style = getComputedStyle(document.documentElement);
  /** @param {string} name */
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(
    ["page", "panel", "ink", "soft", "line", "grey", "blue", "blue-line", "gold", "gold-line", "red",
      "nan", "visited"].map((name) => [name, of(name)]));
};

/** @param {Context} context @param {string} colour @param {string} back @param {boolean} rising */
const hatch = (context, colour, back, rising) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const c = tile.getContext("2d");
  c.fillStyle = back;
  c.fillRect(0, 0, 8, 8);
  c.strokeStyle = colour;
  c.lineWidth = 2;
  c.beginPath();
  for (const shift of [-8, 0, 8]) {
    c.moveTo(shift - 1, rising ? 9 : -1);
    c.lineTo(shift + 9, rising ? -1 : 9);
  }
  c.stroke();
  return context.createPattern(tile, "repeat");
};

/** @param {HTMLCanvasElement} canvas @param {number} width @param {number} height */
const sized = (canvas, width, height) => {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(width * ratio));
  canvas.height = Math.max(1, Math.round(height * ratio));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return context;
};

// Rows and columns of an array as drawn, and its other dimensions, which become planes.
/** @param {View.OperandView} operand */
const flat = (operand) => {
  const { shape, block } = operand;
  const rank = shape.length;
  /** @param {number[]} list @param {number} axis */
  const at = (list, axis) => (axis >= 0 ? Math.max(list[axis], 1) : 1);
  return {
    rows: at(shape, rank - 2), columns: at(shape, rank - 1),
    blockRows: at(block, rank - 2), blockColumns: at(block, rank - 1),
    outer: shape.slice(0, Math.max(rank - 2, 0)), outerBlock: block.slice(0, Math.max(rank - 2, 0)),
  };
};

// The layout in a canvas that is `room` pixels wide. `scale` is in pixels per element.
/** @param {View.OperandView} operand @param {number} room @param {number} scale */
const layoutOf = (operand, room, scale) => {
  const array = flat(operand);
  const count = array.outer.reduce((a, b) => a * b, 1);
  const planes = count > PLANES ? 1 : Math.max(count, 1);
  const most = Math.min(room, LARGEST);
  const limit = planes > 1 ? Math.max(30, room / Math.min(planes, 4) - 6) : most;
  /** @param {number} size @param {number} bound */
  const clamp = (size, bound) => Math.max(Math.min(size, bound), Math.min(bound, planes > 1 ? 26 : count > PLANES ? 80 : 34));
  const high = planes > 1 ? Math.max(Math.min(limit, LARGEST), 44) : LARGEST;
  const width = clamp(array.columns * scale, limit), height = clamp(array.rows * scale, high);
  const gap = planes > 1 ? 6 : 0, label = planes > 1 ? 13 : 0;
  const across = Math.max(1, Math.min(planes, Math.floor((room + gap) / (width + gap))));
  const down = Math.ceil(planes / across);
  return {
    array, count, planes, width, height, gap, label, across,
    whole: [across * (width + gap) - gap, down * (height + gap + label) - gap],
    /** @param {number} column */
    x: (column) => column / array.columns * width,
    /** @param {number} row */
    y: (row) => row / array.rows * height,
    /** @type {(plane: number) => Point} */
    corner: (plane) => [plane % across * (width + gap), Math.floor(plane / across) * (height + gap + label) + label],
  };
};

// The planes, rows and columns of the block that begins at `start`.
/** @param {View.OperandView} operand @param {Layout} layout @param {number[]} start */
const extent = (operand, layout, start) => {
  const { array } = layout;
  const rank = operand.shape.length;
  let planes = [0];
  array.outer.forEach((size, axis) => {
    const next = [];
    const end = Math.min(start[axis] + array.outerBlock[axis], size);
    for (const plane of planes) {
      for (let i = start[axis]; i < end; i++) next.push(plane * size + i);
    }
    planes = next;
  });
  const row = rank > 1 ? start[rank - 2] : 0, column = rank > 0 ? start[rank - 1] : 0;
  return {
    planes, row, column,
    rows: Math.min(array.blockRows, array.rows - row),
    columns: Math.min(array.blockColumns, array.columns - column),
  };
};

// The edges of the cells in elements along one dimension. Cells end where blocks end.
/** @param {View.WrongElements} wrong @param {number} axis @param {number} cells */
const cellEdges = (wrong, axis, cells) => {
  const block = wrong.block[axis], size = wrong.size[axis], each = Math.ceil(block / size);
  const edges = [];
  for (let cell = 0; cell <= cells; cell++) {
    const at = Math.floor(cell / each) * block + Math.min(cell % each * size, block);
    edges.push(Math.min(at, wrong.shape[axis]));
  }
  edges[cells] = wrong.shape[axis];
  return edges;
};

// A block too small to be seen is drawn larger, and stays within its plane.
/** @type {(box: Box, layout: Layout, corner: Point) => Box} */
const grown = ([x, y, w, h], layout, [left, top]) => {
  const wide = Math.max(w, SEEN), high = Math.max(h, SEEN);
  return [
    Math.max(left + 1, Math.min(x - (wide - w) / 2, left + 1 + layout.width - wide)),
    Math.max(top + 1, Math.min(y - (high - h) / 2, top + 1 + layout.height - high)), wide, high];
};
