// @ts-check
// The page's state is a kernel and a step, which keys and sliders change; all else follows from them.

/** @type {View.Document} */
const data = JSON.parse(byId("document").textContent);
const SPEEDS = [1, 2, 4, 8, 16, 32, 64, 250, 1000];
const state = { kernel: 0, step: 0, playing: false, speed: 4 };
/** @type {Card[]} */
let cards = [];
/** @type {TableView[]} */
let tables = [];
/** @type {Meters} */
let meters = null;
/** @type {TimelineView} */
let timeline = null;
/** @type {Look} */
let look = null;

const kernel = () => data.kernels[state.kernel];
/** @param {Card} card */
const shown = (card) => !isTable(card.operand) && !isScratch(card.operand);
const drawable = () => Boolean(data.kernels.length && kernel().shown);

// ---- a kernel ----

/** @param {number} number @param {number} step */
const choose = (number, step) => {
  state.kernel = number;
  byId("kernel").value = String(number);
  const one = kernel();
  cards = one.operands.map((operand) => new Card(operand, one.steps));
  const scratch = one.operands.some(isScratch) ? [byId("scratch-card").content.cloneNode(true)] : [];
  byId("cards").replaceChildren(...cards.filter(shown).map((card) => card.element), ...scratch);
  tables = one.tables.map((table) => new TableView(one, table));
  showChipTable(one.chip_table);
  byId("tables").hidden = !tables.length;
  byId("table-list").replaceChildren(...tables.map((table) => table.element));
  const byHand = Boolean(one.timeline?.by_hand.length);
  const list = byId("scratch-words");
  if (list && byHand) write(list, "the kernel's own: slots that it copies to and from, and semaphores that count its copies");
  meters = new Meters(one, cards);
  timeline = new TimelineView(one);
  byId("refusal").hidden = !one.refusal;
  byId("refusal").querySelector("div").replaceChildren(...paragraphs(one.refusal));
  byId("slider").max = String(Math.max(one.shown - 1, 0));
  const all = one.shown < one.steps ? ` (${commas(one.steps)} in all)` : "";
  write(byId("of"), one.shown ? `of 0–${commas(one.shown - 1)}${all}` : "");
  for (const tag of /** @type {const} */ (["button", "input"])) {
    for (const element of byId("transport").querySelectorAll(tag)) element.disabled = one.shown < 2;
  }
  legend(one);
  lay();
  go(step);
};

const lay = () => {
  if (!data.kernels.length) return;
  look = colours();
  const scale = scaleOf(kernel().operands);
  cards.filter(shown).forEach((card) => card.lay(scale, look));
  const scratch = kernel().operands.filter(isScratch).map((operand) => scratchOf(operand, scale));
  byId("scratch-list")?.replaceChildren(...scratch);
  meters.lay(look);
  timeline.lay(look);
};

// ---- a step ----

/** @param {number} step */
const go = (step) => {
  const one = kernel();
  state.step = Math.max(0, Math.min(one.shown - 1, step | 0));
  if (!one.shown) {
    cards.filter(shown).forEach((card) => { if (!card.runs) card.show(0); });
    write(byId("sentence"), one.grid.includes(null) ? "The size of the grid is not known before the run." : "The grid has no steps.");
    timeline.show(0);
    return;
  }
  cards.filter(shown).forEach((card) => card.show(state.step));
  meters.show(state.step);
  tables.forEach((table) => table.show(state.step));
  timeline.show(state.step);
  where();
};

// Each operand in a clause; if there are many, those that stay share one.
/** @type {(clauses: Clause[]) => Clause[]} */
const told = (clauses) => {
  const moving = clauses.filter((clause) => clause.state !== "stays");
  const staying = clauses.length - moving.length;
  if (clauses.length <= 4 || !staying) return clauses;
  const words = moving.length ? `the other ${staying} stay` : `nothing moves, all ${staying} blocks stay`;
  return [...moving, { state: "stays", words: staying === 1 ? clauses.find((clause) => clause.state === "stays").words : words }];
};

const where = () => {
  const one = kernel();
  const index = one.grid.length ? tuple(indexOf(one.grid, state.step)) : "";
  write(byId("step"), `step ${commas(state.step)}`);
  write(byId("index"), index);
  byId("slider").value = String(state.step);
  byId("slider").setAttribute("aria-valuetext", `step ${state.step} ${index}`);
  byId("sentence").setAttribute("aria-live", state.playing ? "off" : "polite");
  /** @type {(string | HTMLElement)[]} */
  const parts = [put("b", "", `Step ${commas(state.step)}${index && ` ${index}`}: `)];
  const clauses = told(cards.filter(shown).map((card) => card.clause(state.step)).filter(Boolean));
  clauses.forEach((clause, n) => {
    parts.push(put("span", clause.state === "stays" ? "" : "moving", clause.words), n + 1 < clauses.length ? ", " : ".");
  });
  if (!clauses.length && timeline.loops) {
    parts.push("the whole grid. The kernel moves its operands in its own loop: ← and → go from turn to turn in the timeline.");
  }
  byId("sentence").replaceChildren(...parts);
};

// ---- playing ----

const remember = () => {
  const several = data.kernels.length > 1 ? `&kernel=${state.kernel}` : "";
  try { history.replaceState(null, "", `#step=${state.step}${several}`); } catch { /* some browsers keep file:// addresses as they are */ }
};

/** @param {number} step */
const goAndRemember = (step) => { go(step); remember(); };

let last = 0, owed = 0;

/** @param {number} now */
const frame = (now) => {
  if (!state.playing) return;
  owed += Math.min(now - last, 250) / 1000 * state.speed;
  last = now;
  if (owed >= 1) {
    const steps = Math.floor(owed);
    owed -= steps;
    go(state.step + steps);
    if (state.step >= kernel().shown - 1) { play(false); return; }
  }
  requestAnimationFrame(frame);
};

/** @param {boolean} playing */
const play = (playing) => {
  if (playing && state.step >= kernel().shown - 1) go(0);
  state.playing = playing && kernel().shown > 1;
  byId("play").classList.toggle("playing", state.playing);
  byId("play").setAttribute("aria-label", state.playing ? "pause" : "play");
  byId("play").title = state.playing ? "pause (space)" : "play (space)";
  if (state.playing) {
    last = performance.now();
    owed = 0;
    requestAnimationFrame(frame);
  } else {
    where();
    remember();
  }
};

/** @param {number} by */
const faster = (by) => {
  const at = Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(state.speed) + by));
  state.speed = SPEEDS[at];
  byId("speed").value = String(state.speed);
};

// ---- hands ----

/** @param {number} step */
const jump = (step) => { if (state.playing) play(false); goAndRemember(step); };

// By this many grid steps; if the grid has one step, by this many turns of the kernel's loop.
/** @param {number} by */
const along = (by) => { if (!timeline.turn(by)) jump(state.step + by); };

/** @type {Record<string, (event: KeyboardEvent) => void>} */
const KEYS = {
  " ": () => play(!state.playing),
  ArrowLeft: (event) => along(event.shiftKey ? -10 : -1),
  ArrowRight: (event) => along(event.shiftKey ? 10 : 1),
  Home: () => jump(0),
  End: () => jump(kernel().shown - 1),
  "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1), "−": () => faster(-1),
  "?": () => byId("help").showModal(),
};

/** @param {KeyboardEvent} event */
const pressed = (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || target.tagName === "SELECT") return;
  if (event.key === " " && target.closest("button, input[type=checkbox]")) return;
  const number = Number(event.key);
  if (number >= 1 && number <= data.kernels.length && data.kernels.length > 1) { jumpTo(number - 1); return; }
  if (!KEYS[event.key] || (!drawable() && event.key !== "?")) return;
  event.preventDefault();
  KEYS[event.key](event);
};

/** @param {number} number */
const jumpTo = (number) => {
  if (state.playing) play(false);
  choose(number, 0);
  remember();
};

const themes = () => {
  const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const named = () => { write(byId("theme"), dark() ? "light" : "dark"); };
  byId("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = dark() ? "light" : "dark";
    named();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { named(); redraw(); });
  named();
};

const redraw = () => { if (data.kernels.length) { lay(); go(state.step); } };

const hands = () => {
  byId("slider").addEventListener("input", () => jump(Number(byId("slider").value)));
  byId("first").addEventListener("click", () => jump(0));
  byId("back").addEventListener("click", () => jump(state.step - 1));
  byId("play").addEventListener("click", () => play(!state.playing));
  byId("on").addEventListener("click", () => jump(state.step + 1));
  byId("last").addEventListener("click", () => jump(kernel().shown - 1));
  byId("kernel").addEventListener("change", () => jumpTo(Number(byId("kernel").value)));
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  SPEEDS.forEach((speed) => byId("speed").append(new Option(`${commas(speed)} step${speed > 1 ? "s" : ""}/s`, String(speed))));
  byId("speed").value = String(state.speed);
  byId("speed").addEventListener("change", () => { state.speed = Number(byId("speed").value); });
  document.addEventListener("keydown", pressed);
  byId("zoom").addEventListener("click", (event) => {
    const { zoom } = /** @type {HTMLElement} */ (event.target).dataset;
    if (zoom) { timeline.zoom = zoom; zoomed(); timeline.lay(look); timeline.show(state.step); }
  });
  /** @param {PointerEvent} event */
  const pointed = (event) => {
    const step = timeline.stepAt(event.clientX - timeline.canvas.getBoundingClientRect().left);
    if (step !== null) jump(step);
  };
  byId("timeline").addEventListener("pointerdown", pointed);
  byId("timeline").addEventListener("pointermove", (event) => {
    timeline.point(timeline.cycleAt(event.clientX - timeline.canvas.getBoundingClientRect().left));
    if (event.buttons & 1 && timeline.zoom === "whole") pointed(event);
  });
  let waiting = 0;
  addEventListener("resize", () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(redraw); });
  addEventListener("hashchange", fromAddress);
};

const zoomed = () => {
  for (const button of byId("zoom").querySelectorAll("button")) {
    button.setAttribute("aria-pressed", String(button.dataset.zoom === timeline.zoom));
  }
};

const fromAddress = () => {
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = Math.min(Number(asked.get("kernel")) || 0, data.kernels.length - 1);
  const step = Number(asked.get("step")) || 0;
  if (number !== state.kernel || !cards.length) choose(number, step); else go(step);
  zoomed();
};

heading(data);
themes();
if (data.kernels.length) {
  const steps = Math.max(...data.kernels.map((each) => each.shown));
  state.speed = SPEEDS.find((speed) => steps / speed <= 30) || SPEEDS[SPEEDS.length - 1];
  hands();
  fromAddress();
  globalThis.kataView = { go, state };
} else {
  byId("stage").hidden = byId("transport").hidden = true;
  byId("nothing").hidden = false;
  write(byId("nothing"), "There is no kernel to draw.");
  hands();
}
