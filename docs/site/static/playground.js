// The roofline playground. Its points are in the page, from parts/playground.json.
"use strict";

(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const LEFT = 84, RIGHT = 790, TOP = 10, BOTTOM = 420;
  const byId = (id) => document.getElementById(id);
  let data = null;

  // ---- numbers ----

  const shown = (value) => (value >= 100 ? Math.round(value) : Number(value.toPrecision(2))).toString();
  const scaled = (value, units, by) => {
    let place = 0;
    while (value >= by * 0.9995 && place < units.length - 1) { value /= by; place += 1; }
    return `${Number(value.toPrecision(3))} ${units[place]}`;
  };
  const time = (seconds) => scaled(seconds * 1e9, ["ns", "µs", "ms", "s"], 1000);
  const size = (bytes) => scaled(bytes, ["B", "KiB", "MiB", "GiB"], 1024);
  const count = (value) => scaled(value, ["", "thousand", "million", "billion", "trillion"], 1000).trim();

  // ---- the choice ----

  const chip = () => data.chips[byId("chip").value];
  const kata = () => data.katas.find((each) => each.kata === byId("kata").value);
  const chosen = () => kata().cases[Number(byId("size").value) || 0];
  const roof = (intensity, dtype, of = chip()) => Math.min(peak(dtype, of), intensity * of.bandwidth);
  const peak = (dtype, of = chip()) => of.peaks[dtype === "int8" ? "int8" : "bfloat16"];

  // Intensity and speed of a case on the chosen chip; null without a time.
  const point = (each) => {
    const [seconds, bytes] = each.on[byId("chip").value] || [];
    if (!seconds || !each.operations) return null;
    return { seconds, bytes, intensity: each.operations / bytes, speed: each.operations / seconds };
  };

  const options = (select, values) => {
    const before = select.value;
    select.replaceChildren(...values.map(([value, words]) => new Option(words, value)));
    if (values.some(([value]) => value === before)) select.value = before;
  };

  // ---- the plot ----

  const X = [-2, 4.2], Y = [8.5, 15.5]; // powers of ten
  const across = (intensity) => LEFT + (Math.log10(intensity) - X[0]) / (X[1] - X[0]) * (RIGHT - LEFT);
  const up = (speed) => BOTTOM - (Math.log10(speed) - Y[0]) / (Y[1] - Y[0]) * (BOTTOM - TOP);
  const put = (name, attributes, words = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.textContent = words;
    byId("plot").append(element);
    return element;
  };

  const axes = () => {
    for (let power = Math.ceil(X[0]); power <= X[1]; power += 1) {
      const x = across(10 ** power);
      put("line", { class: "line", x1: x, x2: x, y1: TOP, y2: BOTTOM });
      put("text", { x, y: BOTTOM + 16, "text-anchor": "middle" }, String(10 ** power));
    }
    for (let power = Math.ceil(Y[0]); power <= Y[1]; power += 1) {
      const y = up(10 ** power);
      put("line", { class: "line", x1: LEFT, x2: RIGHT, y1: y, y2: y });
      const words = power < 12 ? `${10 ** (power - 9)} G` : `${10 ** (power - 12)} T`;
      put("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, words);
    }
    put("text", { x: RIGHT, y: BOTTOM + 34, "text-anchor": "end" }, "operations per byte");
    put("text", { x: LEFT + 6, y: TOP + 12 }, "operations a second");
  };

  const roofs = () => {
    for (const dtype of ["bfloat16", "int8"]) {
      const ridge = peak(dtype) / chip().bandwidth, end = 10 ** X[1], begin = 10 ** X[0];
      const corners = [[begin, roof(begin, dtype)], [ridge, peak(dtype)], [end, peak(dtype)]];
      const points = corners.map(([x, y]) => `${across(x)},${up(y)}`).join(" ");
      put("polyline", { class: dtype === "int8" ? "roof narrow" : "roof", points });
    }
    const [half, int8] = ["bfloat16", "int8"].map((dtype) => shown(peak(dtype) / 1e12));
    const words = `bfloat16: ${half} T/s, int8 (dashed): ${int8} T/s`;
    put("text", { x: RIGHT, y: up(peak("int8")) - 6, "text-anchor": "end" }, words);
  };

  const draw = () => {
    byId("plot").replaceChildren();
    axes();
    roofs();
    const track = byId("track").value;
    for (const each of data.katas) {
      const at = point(each.cases[0]);
      if (!at || each === kata()) continue;
      const narrow = each.cases[0].dtype === "int8" ? " narrow" : "";
      const faded = track && each.track !== track ? " faded" : "";
      const dot = put("circle", { class: `dot${narrow}${faded}`, cx: across(at.intensity), cy: up(at.speed), r: 5 });
      dot.append(document.createElementNS(SVG, "title"));
      dot.firstChild.textContent = `${each.number} ${each.kata}`;
      dot.addEventListener("click", () => choose(each.kata));
    }
    const at = point(chosen());
    if (at) {
      const x = across(at.intensity), best = roof(at.intensity, chosen().dtype);
      put("line", { class: "gap", x1: x, x2: x, y1: up(at.speed), y2: up(best) });
      put("circle", { class: "chosen", cx: x, cy: up(at.speed), r: 7 });
    }
    own();
  };

  // ---- words ----

  const sentence = () => {
    const each = kata(), name = byId("chip").value, at = point(chosen());
    const whole = `${each.number} ${each.kata}, ${chosen().case}, on a ${name}: `;
    if (!chosen().on[name]) return `${whole}no time, because the compiler refuses these blocks or the schedule can't be followed.`;
    if (!at) return `${whole}${time(chosen().on[name][0])} for ${size(chosen().on[name][1])}. It only moves data, so it isn't in the picture.`;
    return whole + told(at, chosen().operations, chosen().dtype);
  };

  const told = (at, operations, dtype) => {
    const best = roof(at.intensity, dtype), limit = best < peak(dtype) ? "HBM's bandwidth" : "the matrix units";
    return `${count(operations)} operations, ${size(at.bytes)} and ${time(at.seconds)}: ${shown(at.intensity)} operations per byte, ` +
      `and ${shown(100 * at.speed / best)} % of the roof, which is ${limit} there.`;
  };

  const own = () => {
    const [operations, bytes, micros] = ["own-operations", "own-bytes", "own-time"].map((id) => Number(byId(id).value));
    let words = "Enter operations and bytes; with a time, the kernel is drawn as a square.";
    if ([operations, bytes, micros].some(Number.isNaN)) {
      words = "Enter plain numbers, such as 2.75e11.";
    } else if (operations > 0 && bytes > 0) {
      const best = Math.max(operations / peak("bfloat16"), bytes / chip().bandwidth);
      words = `On a ${byId("chip").value}, it takes at least ${time(best)}.`;
      const at = { bytes, seconds: micros / 1e6, intensity: operations / bytes, speed: operations / micros * 1e6 };
      if (micros > 0) {
        put("rect", { class: "own", x: across(at.intensity) - 6, y: up(at.speed) - 6, width: 12, height: 12 });
        const faster = micros / 1e6 < best;
        words += faster ? " No kernel is faster than that: check the numbers and their units." : ` ${told(at, operations, "bfloat16")}`;
      }
    }
    byId("own-told").textContent = words;
  };

  const table = () => {
    const row = (cells, tag, address = "") => {
      const line = document.createElement("tr");
      line.append(...cells.map((words) => Object.assign(document.createElement(tag), { textContent: words })));
      if (address) {
        const link = Object.assign(document.createElement("a"), { href: address, textContent: cells[0] });
        line.firstChild.replaceChildren(link);
      }
      return line;
    };
    const rows = data.katas.map((each) => {
      const first = each.cases[0], at = point(first), on = first.on[byId("chip").value];
      const share = at ? `${shown(100 * at.speed / roof(at.intensity, first.dtype))} %` : "–";
      const cells = [`${each.number} ${each.kata}`, first.case, on ? time(on[0]) : "–", on ? size(on[1]) : "–", share];
      return row(cells, "td", `katas/${each.track}/${each.kata}.html`);
    });
    const head = row(["kata", "size", "time", "bytes", "of the roof"], "th");
    byId("points").replaceChildren(head, ...rows);
  };

  // ---- choices ----

  const show = () => {
    byId("told").textContent = sentence();
    draw();
    table();
    const at = new URLSearchParams({ chip: byId("chip").value, kata: byId("kata").value, size: byId("size").value });
    try { history.replaceState(null, "", `#${at}`); } catch { /* some browsers keep file:// addresses as they are */ }
  };

  const choose = (name) => {
    byId("kata").value = name;
    byId("size").replaceChildren();
    sizes();
    show();
  };

  // The katas of the chosen track; the one that is chosen stays, if it is among them.
  const narrowed = () => {
    const track = byId("track").value;
    const shown = data.katas.filter((each) => !track || each.track === track);
    options(byId("kata"), shown.map((each) => [each.kata, `${each.number} ${each.kata}`]));
    sizes();
    show();
  };

  const sizes = () => options(byId("size"), kata().cases.map((each, place) => [String(place), each.case]));

  const start = (read) => {
    data = read;
    options(byId("chip"), Object.keys(data.chips).map((name) => [name, `TPU ${name}`]));
    options(byId("kata"), data.katas.map((each) => [each.kata, `${each.number} ${each.kata}`]));
    const tracks = [...new Set(data.katas.map((each) => each.track))];
    options(byId("track"), [["", "all"], ...tracks.map((name) => [name, name])]);
    const asked = new URLSearchParams(location.hash.slice(1));
    if (data.chips[asked.get("chip")]) byId("chip").value = asked.get("chip");
    byId("kata").value = data.katas.some((each) => each.kata === asked.get("kata")) ? asked.get("kata") : "tiled_matmul";
    sizes();
    if (kata().cases[asked.get("size")]) byId("size").value = asked.get("size");
    byId("kata").addEventListener("change", () => choose(byId("kata").value));
    byId("track").addEventListener("change", narrowed);
    for (const id of ["chip", "size"]) byId(id).addEventListener("change", show);
    for (const id of ["own-operations", "own-bytes", "own-time"]) byId(id).addEventListener("input", draw);
    document.querySelectorAll(".playground form").forEach((form) => form.addEventListener("submit", (event) => event.preventDefault()));
    show();
  };

  start(JSON.parse(byId("playground-data").textContent));
})();
