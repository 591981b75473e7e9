// @ts-check
// The player's positions: grid steps; else turns of the kernel's loop, its copies and waits, or rows
// of the table of chips. Each has a sentence. Positions are counted from 0 here, and from 1
// wherever a person sees them.

/** @type {Record<Unit, { one: string; many: string; long: string }>} */
const UNITS = {
  step: { one: "step", many: "steps", long: "grid step" },
  turn: { one: "turn", many: "turns", long: "turn of the kernel's loop" },
  event: { one: "event", many: "events", long: "copy or wait" },
  row: { one: "row", many: "rows", long: "row of the table of chips" },
};
const MOST = 8;             // clauses in a sentence

/** @param {View.Timeline | null} data @returns {OneLane[]} */
const lanesOf = (data) => (data ? data.lanes.map((lane) => {
  const count = lane.slices.length / 3;
  const start = new Int32Array(count), end = new Int32Array(count), kind = new Int32Array(count);
  let now = 0;
  for (let n = 0; n < count; n++) {
    start[n] = now + lane.slices[3 * n];
    end[n] = now = start[n] + lane.slices[3 * n + 1];
    kind[n] = lane.slices[3 * n + 2];
  }
  return { name: lane.name, kinds: lane.kinds, start, end, kind };
}) : []);

/** @param {string} kind */
const isCopy = (kind) => kind.endsWith(" in") || kind.endsWith(" out");

// A slice's start in words: a copy starts, or the core waits. "" for other slices.
/** @param {OneLane} lane @param {string} kind @param {View.KernelView} kernel */
const startWords = (lane, kind, kernel) => {
  if (lane.name === "core") return kind.startsWith("waits for ") ? `the core ${kind}` : "";
  if (lane.name === "HBM" || !isCopy(kind)) return "";
  if (/ → \d+ places$/.test(lane.name)) return `copies of ${lane.name.split(" → ")[0]} start`;
  if (lane.name.includes(" → ")) return `the copy ${lane.name} starts`;
  const label = kind.replace(/ (in|out)$/, "");
  const scalars = kernel.operands.some((operand) => operand.label === label && (isTable(operand) || operand.space === "smem"));
  const target = kind.endsWith(" out") ? "HBM" : scalars ? "SMEM" : "VMEM";
  return `the copy of ${label} to ${target} starts`;
};

// All copies and waits in order of time. `byHand`: only the kernel's own.
/** @param {View.KernelView} kernel @param {OneLane[]} lanes @param {boolean} byHand @returns {Happening[]} */
const happeningsOf = (kernel, lanes, byHand) => {
  const own = new Set((kernel.timeline?.by_hand ?? []).map((one) => one.operand));
  /** @type {Happening[]} */
  const found = [];
  for (const lane of lanes) {
    const words = lane.kinds.map((kind) => {
      const mine = lane.name === "core" ? own.has(kind.replace("waits for ", "").split(" ")[0]) : lane.name.includes(" → ");
      return byHand && !mine ? "" : startWords(lane, kind, kernel);
    });
    lane.start.forEach((at, n) => { if (words[lane.kind[n]]) found.push({ at, words: words[lane.kind[n]] }); });
  }
  return found.sort((a, b) => a.at - b.at);
};

// Equal words are told once, with their number; the rest of many in short.
/** @param {string[]} all */
const inShort = (all) => {
  const counts = new Map();
  for (const words of all) counts.set(words, (counts.get(words) ?? 0) + 1);
  const found = [...counts].map(([words, count]) => (count > 1 ? `${words} (${commas(count)} times)` : words));
  if (found.length <= MOST) return found;
  return [...found.slice(0, MOST - 1), `${commas(found.length - MOST + 1)} more follow`];
};

/** @param {string} words */
const capital = (words) => words.replace(/^(the|all|both|each|chips?|copies|nothing|before|no) /, (first) => first[0].toUpperCase() + first.slice(1));

// "a, b and c".
/** @param {string[]} all */
const listed = (all) => (all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all[all.length - 1]}` : all.join(""));

// ---- rows of the table of chips ----

/** @param {string} words */
const plural = (words) => words.replace(/^(\w+)/, (verb) => (verb === "has" ? "have" : verb.endsWith("ies") ? `${verb.slice(0, -3)}y` : verb.replace(/s$/, "")));

// "all 4 chips have waited for a", "all 4 chips have waited for b": one clause.
/** @param {string[]} clauses */
const joined = (clauses) => {
  /** @type {string[][]} */
  const groups = [];
  for (const clause of clauses) {
    const begin = /^(all|both) .*?(have waited for|wait for) /.exec(clause)?.[0] ?? "";
    const last = groups[groups.length - 1];
    if (begin && last?.[0] === begin) last.push(clause.slice(begin.length)); else groups.push([begin, clause.slice(begin.length)]);
  }
  return groups.map(([begin, ...ends]) => begin + listed(ends));
};

// A row in words. Chips that do the same share a clause; so do those that differ in numbers alone.
/** @param {View.ChipTable} table @param {number} row */
const rowClauses = (table, row) => {
  /** @type {Map<string, Map<string, string[]>>} */
  const kinds = new Map();
  table.moments[row].forEach((phrases, chip) => {
    for (const phrase of phrases) {
      const words = phrase.split(/, into its |; /)[0];
      const kind = words.replace(/\d+/g, "#");
      if (!kinds.has(kind)) kinds.set(kind, new Map());
      const same = kinds.get(kind);
      if (!same.has(words)) same.set(words, []);
      if (!same.get(words).includes(table.chips[chip])) same.get(words).push(table.chips[chip]);
    }
  });
  const count = table.chips.length, all = count === 2 ? "both chips" : `all ${count} chips`;
  /** @type {(words: string, chips: string[]) => string} */
  const clause = (words, chips) => {
    if (chips.length === count) return `${all} ${plural(words)}`;
    if (chips.length === 1) return `${chips[0]} ${words}`;
    const names = chips.map((name) => name.replace("chip ", ""));
    return `chips ${listed(names)} ${plural(words)}`;
  };
  return joined([...kinds.values()].flatMap((same) => {
    const shared = [...same].filter(([, chips]) => chips.length === count);
    const several = [...same].filter(([, chips]) => chips.length < count);
    const found = shared.map(([words, chips]) => clause(words, chips));
    if (several.length <= 2) return [...found, ...several.map(([words, chips]) => clause(words, chips))];
    const [[words, [chip]]] = several;
    const others = new Set(several.flatMap(([, chips]) => chips)).size - 1;
    const theirs = others === 1 ? "one other chip does the same" : `the other ${others} chips ${plural(words).split(" ")[0]} theirs`;
    return [...found, `${chip} ${words}, and ${others ? theirs : "more"}`];
  }));
};

// ---- the positions of one kernel ----

class Positions {
  /** @param {View.KernelView} kernel */
  constructor(kernel) {
    this.kernel = kernel;
    this.lanes = lanesOf(kernel.timeline);
    const { timeline, chip_table: table } = kernel;
    const blocks = kernel.operands.some((operand) => operand.runs && !isTable(operand));
    const steps = sums(timeline?.steps ?? []), turns = sums(timeline?.turns ?? []);
    /** @type {Unit} */
    this.unit = "step";
    this.count = kernel.shown;
    /** The start of each position, and the end of the last, in cycles; empty if they aren't known. */
    this.bounds = steps.length > 1 ? steps : new Int32Array();
    const once = kernel.shown < 2 || !blocks;
    this.happenings = happeningsOf(kernel, this.lanes, !once);
    this.times = Int32Array.from(this.happenings, (one) => one.at);
    if (once && table && table.moments.length) {
      this.set("row", table.moments.length, []);
    } else if (once && turns.length > 1) {
      this.set("turn", turns.length, [...turns, timeline.cycles]);
    } else if (once && this.happenings.length > 1) {
      this.set("event", this.happenings.length, [...this.happenings.map((one) => one.at), timeline.cycles]);
    }
  }

  /** @param {Unit} unit @param {number} count @param {number[]} bounds */
  set(unit, count, bounds) {
    this.unit = unit;
    this.count = count;
    this.bounds = Int32Array.from(bounds);
  }

  get words() {
    return UNITS[this.unit];
  }

  // The grid step that the cards show at a position.
  /** @param {number} position */
  step(position) {
    return this.unit === "step" ? position : 0;
  }

  // The copies and waits of a position, in words.
  /** @param {number} position */
  copies(position) {
    if (this.unit === "event") return [this.happenings[position].words];
    if (position + 1 >= this.bounds.length) return [];
    const end = position === this.count - 1 ? Infinity : this.bounds[position + 1];
    return this.between(this.bounds[position], end);
  }

  // The copies and waits before the first turn of the kernel's loop.
  /** @param {number} position */
  before(position) {
    if (this.unit !== "turn" || position) return [];
    return this.between(0, this.bounds[0]);
  }

  // The kinds of copies that are in flight at an event, or during a turn: "x_ref in".
  /** @param {number} position @returns {Set<string>} */
  flying(position) {
    if (this.unit !== "event" && this.unit !== "turn") return new Set();
    const from = this.bounds[position], end = this.unit === "event" ? from + 1 : this.bounds[position + 1];
    return new Set(this.lanes.filter((lane) => lane.name !== "HBM" && lane.name !== "core").flatMap((lane) => {
      const found = [];
      for (let n = upTo(lane.end, from); n < lane.start.length && lane.start[n] < end; n++) found.push(lane.kinds[lane.kind[n]]);
      return found.filter(isCopy);
    }));
  }

  // What starts from one cycle on, and before another.
  /** @param {number} from @param {number} end */
  between(from, end) {
    return inShort(this.happenings.slice(upTo(this.times, from - 1), upTo(this.times, end - 1)).map(({ words }) => words));
  }
}

// What happens at a position, as sentences whose moving parts are emphasised.
/** @param {Positions} positions @param {number} position @param {Clause[]} clauses @returns {Clause[]} */
const told = (positions, position, clauses) => {
  const { unit, kernel } = positions;
  /** @param {string[]} all @returns {Clause[]} */
  const moving = (all) => all.map((words) => ({ state: "in", words }));
  if (unit === "row") return moving(inShort(rowClauses(kernel.chip_table, position)));
  const copies = positions.copies(position);
  if (unit !== "step") {
    return copies.length ? moving(copies) : [{ state: "stays", words: "no copy starts, and the core waits for none" }];
  }
  const arrive = clauses.filter((clause) => clause.state === "in"), leave = clauses.filter((clause) => clause.state === "out");
  const stay = clauses.filter((clause) => clause.state === "stays");
  const found = [...arrive, ...moving(copies), ...leave];
  if (stay.length && (clauses.length <= 4 || stay.length === 1)) found.push(...stay);
  else if (stay.length) found.push({ state: "stays", words: found.length ? `the other ${stay.length} blocks stay` : `all ${stay.length} blocks stay` });
  if (!found.length) {
    const hidden = !kernel.timeline && kernel.operands.some(isByHand);
    found.push({ state: "stays", words: hidden ? "the kernel makes its copies itself, and only the compiler's schedule tells them" : "the kernel's body runs; no block moves" });
  }
  return found;
};
