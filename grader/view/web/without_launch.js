// @ts-check
// Pages without a launch: tables of numbers, predictions on the roofline, the kernels that a test caught.

/** @param {View.Document} data */
const withoutLaunch = (data) => {
  byId("numbers").hidden = !data.numbers.length;
  byId("numbers-list").replaceChildren(...data.numbers.map(numberTable));
  byId("read-by").hidden = !data.read_by;
  write(byId("read-by"), data.read_by);
  byId("footer").hidden = !data.kernels.length;
  byId("roofline").hidden = !data.roofline;
  if (data.roofline) rooflineTable(data.roofline);
  byId("trials").hidden = !data.trials;
  if (data.trials) trials(data.trials);
};

// ---- tables of numbers ----

/** @param {View.NumberTable} data */
const numberTable = (data) => {
  const box = put("div", "wide");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", data.title);
  const table = put("table", "small numbers");
  table.append(put("caption", "", data.title));
  const head = put("tr");
  for (const words of [data.index, ...data.columns]) {
    const cell = put("th", "code", words);
    cell.scope = "col";
    head.append(cell);
  }
  table.append(head);
  const wrong = new Set(data.wrong);
  data.rows.forEach(([index, ...cells], n) => {
    const row = put("tr");
    const name = put("th", "code", index);
    name.scope = "row";
    row.append(name);
    cells.forEach((text, column) => {
      const cell = put("td", wrong.has(n * cells.length + column) ? "code wrong-cell" : "code", text);
      if (cell.className !== "code") cell.title = "wrong";
      row.append(cell);
    });
    table.append(row);
  });
  box.append(table);
  if (data.note) box.append(put("p", "soft small", data.note));
  return box;
};

// ---- the roofline ----

/** @param {number} value @param {string} unit */
const scaled = (value, unit) => {
  let number = value, prefix = "";
  for (const next of ["k", "M", "G", "T", "P"]) {
    if (number < 1000) break;
    number /= 1000;
    prefix = next;
  }
  return `${number.toPrecision(3)} ${prefix}${unit}`;
};

/** @param {number} value */
const ratio = (value) => (value >= 100 ? commas(Math.round(value)) : value.toPrecision(3));

/** @param {View.RooflinePicture} data */
const rooflineTable = (data) => {
  const answered = data.points.some((point) => point.seconds > 0);
  const programs = answered ? "" : ` The programs: ${data.points.map((point) => point.name).join(", ")}.`;
  write(byId("roofline-words"), data.note + programs);
  if (!answered) return;
  const table = put("table", "small");
  const head = put("tr");
  for (const words of ["program", "bytes", "operations", "operations per byte", "time", "operations a second"]) head.append(put("th", "", words));
  table.append(head);
  data.points.forEach((point) => {
    const row = put("tr");
    const name = put("th", "code", point.name);
    name.scope = "row";
    const rate = point.seconds > 0 ? scaled(point.operations / point.seconds, "op/s") : "";
    const cells = point.seconds > 0
      ? [scaled(point.bytes, "B"), scaled(point.operations, "op"), ratio(point.operations / point.bytes), timeOf(point.seconds), rate]
      : ["", "", "", "", ""];
    row.append(name, ...cells.map((words) => put("td", "code", words || "–")));
    table.append(row);
  });
  byId("roofline-points").replaceChildren(table);
};

/** @param {View.Document} data */
const drawRoofline = ({ roofline: data }) => {
  if (!data) return;
  const look = colours(), canvas = byId("roofline-picture");
  const width = inner(canvas.parentElement), height = Math.min(360, Math.max(240, width * 0.45));
  const c = sized(canvas, width, height);
  const points = data.points.filter((point) => point.seconds > 0);
  const per = points.map((point) => point.operations / point.bytes), rates = points.map((point) => point.operations / point.seconds);
  const ridges = data.roofs.map((roof) => roof.peak / data.bandwidth);
  const peak = Math.max(...data.roofs.map((roof) => roof.peak));
  const low = Math.floor(Math.log10(Math.min(0.1, ...per))), high = Math.ceil(Math.log10(Math.max(...ridges, ...per) * 8));
  const bottom = Math.log10(Math.min(10 ** low * data.bandwidth, ...rates)) - 0.2, top = Math.log10(Math.max(peak, ...rates)) + 0.35;
  /** @param {number} value */
  const x = (value) => 8 + (Math.log10(value) - low) / (high - low) * (width - 16);
  /** @param {number} value */
  const y = (value) => height - 34 - (Math.log10(value) - bottom) / (top - bottom) * (height - 44);
  c.font = "12px system-ui, sans-serif";
  c.strokeStyle = look.line;
  c.fillStyle = look.soft;
  let free = 0;  // where the axis has room for the next label
  for (let power = low; power <= high; power++) {
    c.beginPath();
    c.moveTo(x(10 ** power), 6);
    c.lineTo(x(10 ** power), height - 34);
    c.stroke();
    const words = power < 0 ? String(10 ** power) : commas(10 ** power);
    const long = c.measureText(words).width, left = Math.min(x(10 ** power) + 3, width - long);
    if (left < free) continue;
    c.fillText(words, left, height - 20);
    free = left + long + 4;
  }
  c.fillText("operations a second", 12, 16);
  c.fillText("operations per byte", width - c.measureText("operations per byte").width - 2, height - 4);
  /** @type {Box[]} */
  const names = [];
  c.strokeStyle = look["blue-line"];
  c.lineWidth = 2;
  data.roofs.forEach((roof, n) => {
    c.beginPath();
    c.moveTo(x(10 ** low), y(10 ** low * data.bandwidth));
    c.lineTo(x(ridges[n]), y(roof.peak));
    c.lineTo(x(10 ** high), y(roof.peak));
    c.stroke();
    c.fillStyle = look.ink;
    const words = `${roof.name}: ${scaled(roof.peak, "op/s")}`;
    const long = c.measureText(words).width;
    names.push([width - 8 - long, y(roof.peak) - 5, long, 13]);
    c.fillText(words, width - 8 - long, y(roof.peak) - 5);
  });
  c.fillStyle = look.ink;
  c.save();
  const from = [x(10 ** low), y(10 ** low * data.bandwidth)], to = [x(ridges[0]), y(data.roofs[0].peak)];
  c.translate((from[0] + to[0]) / 2, (from[1] + to[1]) / 2);
  c.rotate(Math.atan2(to[1] - from[1], to[0] - from[0]));
  const bandwidth = `HBM: ${scaled(data.bandwidth, "B/s")}`;
  c.fillText(bandwidth, -c.measureText(bandwidth).width / 2, -6);
  c.restore();
  points.forEach((point, n) => {
    const at = [x(per[n]), y(rates[n])], long = c.measureText(point.name).width;
    c.fillStyle = look["gold-line"];
    c.beginPath();
    c.arc(at[0], at[1], 5, 0, 7);
    c.fill();
    const left = Math.max(2, Math.min(at[0] + 6, width - long - 2));
    let foot = at[1] + 17;
    while (names.some(([l, b, w]) => left < l + w + 6 && l < left + long + 6 && Math.abs(b - foot) < 13)) foot += 13;
    names.push([left, foot, long, 13]);
    c.fillStyle = look.ink;
    c.fillText(point.name, left, foot);
  });
};

// ---- the kernels that a test caught ----

/** @param {View.CaughtKernels} data */
const trials = (data) => {
  /** @param {number} good @param {number} of @param {string} yes @param {string} no */
  const squares = (good, of, yes, no) => {
    const list = put("ul", "squares");
    for (let n = 0; n < of; n++) {
      const square = put("li", !data.ran ? "square" : n < good ? "square good" : "square bad", !data.ran ? "?" : n < good ? "✓" : "✗");
      square.setAttribute("aria-label", !data.ran ? "not run" : n < good ? yes : no);
      list.append(square);
    }
    return list;
  };
  const caught = data.ran ? `${data.caught} of ${many(data.of, "wrong kernel")} caught` : `${many(data.of, "wrong kernel")}: your test should reject each of them`;
  const accepted = data.ran ? `${data.accepted} of ${many(data.of_right, "right kernel")} accepted` : `${many(data.of_right, "right kernel")}: your test should accept ${data.of_right === 1 ? "it" : "all of them"}`;
  byId("trials-words").replaceChildren(put("p", "", caught), squares(data.caught, data.of, "caught", "not caught"),
    put("p", "", accepted), squares(data.accepted, data.of_right, "accepted", "rejected"));
};
