// @ts-check
// The page's state is a kernel and a position, which keys and sliders change; all else follows.

/** @type {View.Document} */
const data = JSON.parse(byId("document").textContent);
const SPEEDS = [1, 2, 4, 8, 16, 32, 64, 250, 1000];
const state = { kernel: 0, position: 0, playing: false, loops: false, speed: 4, theme: "" };
/** @type {Card[]} */
let cards = [];
/** @type {TableView[]} */
let tables = [];
/** @type {Meters} */
let meters = null;
/** @type {TimelineView} */
let timeline = null;
/** @type {Positions} */
let positions = null;
/** @type {ChipRows} */
let chips = null;
/** @type {Look} */
let look = null;

const kernel = () => data.kernels[state.kernel];
/** @param {Card} card */
const shown = (card) => !isTable(card.operand) && !isScratch(card.operand);
const drawable = () => Boolean(data.kernels.length && positions.count);
const lastPosition = () => positions.count - 1;

// ---- a kernel ----

/** @param {number} number @param {number} position */
const choose = (number, position) => {
  state.kernel = number;
  byId("kernel").value = String(number);
  const one = kernel();
  positions = new Positions(one);
  cards = one.operands.map((operand) => new Card(operand, one.steps));
  const scratch = one.operands.some(isScratch) ? [byId("scratch-card").content.cloneNode(true)] : [];
  byId("cards").replaceChildren(...cards.filter(shown).map((card) => card.element), ...scratch);
  tables = one.tables.map((table) => new TableView(one, table));
  chips = new ChipRows(one.chip_table);
  byId("tables").hidden = !tables.length;
  byId("table-list").replaceChildren(...tables.map((table) => table.element));
  const byHand = Boolean(one.timeline?.by_hand.length);
  const list = byId("scratch-words");
  if (list && byHand) write(list, "the kernel's own: slots that it copies to and from, and semaphores that count its copies");
  meters = new Meters(one, cards, positions.unit === "step");
  timeline = new TimelineView(one, positions);
  // Copies and turns are seen in the timeline, so it stands above the cards.
  byId("columns")[positions.bounds.length && positions.unit !== "step" ? "before" : "after"](byId("run"));
  byId("refusal").hidden = !one.refusal;
  byId("refusal").querySelector("div").replaceChildren(...paragraphs(one.refusal));
  transport();
  legend(one, positions.unit);
  lay();
  go(position);
};

// The player for this kernel's positions.
const transport = () => {
  const { count, words } = positions, one = kernel();
  const all = positions.unit === "step" && one.shown < one.steps ? ` (${commas(one.steps)} in all)` : "";
  write(byId("of"), count ? `of ${commas(count)}${all}` : "");
  byId("slider").max = String(Math.max(count, 1));
  byId("slider").setAttribute("aria-label", words.long);
  byId("transport").setAttribute("aria-label", `player: ${words.many}`);
  for (const tag of /** @type {const} */ (["button", "input"])) {
    for (const element of byId("transport").querySelectorAll(tag)) element.disabled = count < 2;
  }
  const labels = /** @type {const} */ ([["first", `first ${words.one}`, "Home"], ["back", `one ${words.one} back`, "left arrow"],
    ["on", `one ${words.one} on`, "right arrow"], ["last", `last ${words.one}`, "End"]]);
  for (const [id, label, key] of labels) {
    byId(id).title = `${label} (${key})`;
    byId(id).setAttribute("aria-label", label);
  }
  byId("speed").setAttribute("aria-label", `${words.many} a second`);
  byId("speed").replaceChildren(...SPEEDS.map((speed) => new Option(`${commas(speed)} ${speed > 1 ? words.many : words.one}/s`, String(speed))));
  byId("speed").value = String(state.speed);
  write(byId("near"), `around this ${words.one}`);
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

// ---- a position ----

/** @param {number} position */
const go = (position) => {
  const one = kernel();
  state.position = Math.max(0, Math.min(lastPosition(), position | 0));
  if (!positions.count) {
    cards.filter(shown).forEach((card) => { if (!card.runs) card.show(0); });
    write(byId("sentence"), one.grid.includes(null) ? "The size of the grid is not known before the run." : "The grid has no steps.");
    timeline.show(0);
    return;
  }
  const step = positions.step(state.position);
  const flying = positions.unit === "step" ? null : positions.flying(state.position);
  cards.filter(shown).forEach((card) => { if (!card.runs || one.shown) card.show(step, flying); });
  if (one.shown) {
    meters.show(step);
    tables.forEach((table) => table.show(step));
  }
  timeline.step = state.position;
  if (positions.unit === "row") chips.show(state.position);
  if (positions.bounds.length && positions.unit !== "step") timeline.point(positions.bounds[state.position]);
  else timeline.show(state.position);
  where();
};

const where = () => {
  const { position } = state, { unit, count } = positions;
  const one = kernel();
  const index = unit === "step" && one.grid.length ? tuple(indexOf(one.grid, position)) : "";
  write(byId("step"), `${unit} ${commas(position + 1)}`);
  write(byId("index"), index);
  byId("slider").value = String(position + 1);
  byId("slider").setAttribute("aria-valuetext", `${unit} ${commas(position + 1)} of ${commas(count)}${index && ` ${index}`}`);
  byId("sentence").setAttribute("aria-live", state.playing ? "off" : "polite");
  const clauses = told(positions, position, cards.filter(shown).map((card) => card.clause(positions.step(position))).filter(Boolean));
  const before = positions.before(position);
  /** @type {(string | HTMLElement)[]} */
  const parts = before.length ? [`Before the loop, ${listed(before)}. `] : [];
  if (unit === "turn") parts.push(`In turn ${commas(position + 1)}, `);
  clauses.forEach((clause, n) => {
    const words = n || unit === "turn" ? clause.words : capital(clause.words);
    parts.push(put("span", clause.state === "stays" ? "" : "moving", words), n + 1 < clauses.length ? "; " : ".");
  });
  byId("sentence").replaceChildren(...parts);
};

// ---- playing ----

const remember = () => {
  const several = data.kernels.length > 1 ? `&kernel=${state.kernel + 1}` : "";
  const theme = state.theme && `&theme=${state.theme}`;
  try { history.replaceState(null, "", `#step=${state.position + 1}${several}${theme}`); } catch { /* some browsers keep file:// addresses as they are */ }
};

/** @param {number} position */
const goAndRemember = (position) => { go(position); remember(); };

let last = 0, owed = 0;

/** @param {number} now */
const frame = (now) => {
  if (!state.playing) return;
  owed += Math.min(now - last, 250) / 1000 * state.speed;
  last = now;
  if (owed >= 1) {
    const due = Math.floor(owed);
    owed -= due;
    go(state.loops && state.position >= lastPosition() ? 0 : state.position + due);
    if (state.position >= lastPosition() && !state.loops) { play(false); return; }
  }
  requestAnimationFrame(frame);
};

/** @param {boolean} playing */
const play = (playing) => {
  if (playing && state.position >= lastPosition()) go(0);
  state.playing = playing && positions.count > 1;
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

/** @param {number} position */
const jump = (position) => { if (state.playing) play(false); goAndRemember(position); };

/** @type {Record<string, (event: KeyboardEvent) => void>} */
const KEYS = {
  " ": () => play(!state.playing),
  ArrowLeft: (event) => jump(state.position - (event.shiftKey ? 10 : 1)),
  ArrowRight: (event) => jump(state.position + (event.shiftKey ? 10 : 1)),
  Home: () => jump(0),
  End: () => jump(lastPosition()),
  "+": () => faster(1), "=": () => faster(1), "-": () => faster(-1), "−": () => faster(-1),
  "?": () => byId("help").showModal(),
};

/** @param {KeyboardEvent} event */
const pressed = (event) => {
  const target = /** @type {Element} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || byId("help").open || target.tagName === "SELECT") return;
  if (event.key === " " && target.closest("button, summary, input[type=checkbox]")) return;
  const number = Number(event.key);
  if (number >= 1 && number <= data.kernels.length && data.kernels.length > 1) { jumpTo(number - 1); return; }
  if (!KEYS[event.key] || (!drawable() && event.key !== "?")) return;
  event.preventDefault();
  KEYS[event.key](event);
};

/** @param {number} number @param {number} [position] */
const jumpTo = (number, position = 0) => {
  if (state.playing) play(false);
  choose(number, position);
  zoomed();
  remember();
};

// The theme: the button's, the address's (#theme=dark), or an embedding page's, which sends {theme: "dark"}.
const THEMES = ["dark", "light"];
const dark = () => (document.documentElement.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

/** @param {unknown} theme */
const setTheme = (theme) => {
  if (typeof theme !== "string" || !THEMES.includes(theme)) return;
  const before = dark();
  document.documentElement.dataset.theme = theme;
  write(byId("theme"), dark() ? "light" : "dark");
  if (before !== dark()) redraw();
};

const themes = () => {
  byId("theme").hidden = window.parent !== window;
  byId("theme").addEventListener("click", () => setTheme(dark() ? "light" : "dark"));
  addEventListener("message", (event) => setTheme(event.data?.theme));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { write(byId("theme"), dark() ? "light" : "dark"); redraw(); });
  write(byId("theme"), dark() ? "light" : "dark");
};

const themeFromAddress = () => {
  const asked = new URLSearchParams(location.hash.slice(1)).get("theme");
  state.theme = THEMES.includes(asked) ? asked : "";
  setTheme(asked);
};

const redraw = () => {
  if (cards.length) { lay(); go(state.position); }
  drawRoofline(data);
};

const hands = () => {
  byId("slider").addEventListener("input", () => jump(Number(byId("slider").value) - 1));
  byId("first").addEventListener("click", () => jump(0));
  byId("back").addEventListener("click", () => jump(state.position - 1));
  byId("play").addEventListener("click", () => play(!state.playing));
  byId("on").addEventListener("click", () => jump(state.position + 1));
  byId("last").addEventListener("click", () => jump(lastPosition()));
  byId("kernel").addEventListener("change", () => jumpTo(Number(byId("kernel").value)));
  byId("help-open").addEventListener("click", () => byId("help").showModal());
  byId("speed").addEventListener("change", () => { state.speed = Number(byId("speed").value); });
  document.addEventListener("keydown", pressed);
  byId("zoom").addEventListener("click", (event) => {
    const { zoom } = /** @type {HTMLElement} */ (event.target).dataset;
    if (zoom) { timeline.zoom = zoom; zoomed(); timeline.lay(look); timeline.show(state.position); }
  });
  /** @param {PointerEvent} event */
  const pointed = (event) => {
    const position = timeline.stepAt(event.clientX - timeline.canvas.getBoundingClientRect().left);
    if (position !== null) jump(position);
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
  themeFromAddress();
  if (!data.kernels.length) return;
  const asked = new URLSearchParams(location.hash.slice(1));
  const number = Math.max(0, Math.min((Number(asked.get("kernel")) || 1) - 1, data.kernels.length - 1));
  const position = (Number(asked.get("step")) || 1) - 1;
  if (number !== state.kernel || !cards.length) choose(number, position); else go(position);
  zoomed();
};

heading(data, jumpTo);
withoutLaunch(data);
themes();
themeFromAddress();
drawRoofline(data);
if (data.kernels.length) {
  const most = Math.max(...data.kernels.map((each) => new Positions(each).count));
  state.speed = SPEEDS.find((speed) => most / speed <= 30) || SPEEDS[SPEEDS.length - 1];
  hands();
  fromAddress();
  // An embedding page asks for a run that begins again after its end.
  state.loops = new URLSearchParams(location.hash.slice(1)).has("play");
  if (state.loops) play(true);
  globalThis.kataView = { go: (position) => go(position - 1), state };
} else {
  byId("stage").hidden = byId("transport").hidden = true;
  byId("nothing").hidden = Boolean(data.roofline || data.trials || data.numbers.length);
  write(byId("nothing"), "There is no kernel to draw.");
  document.body.classList.add("still");
  hands();
}
