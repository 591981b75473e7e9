// @ts-check
// The parts that don't change with the step: title, verdict, choice of a kernel, wrong elements, legend.

// A message of the grader: a headline, then labelled paragraphs, indented by nine.
/** @param {string} message */
const paragraphs = (message) => {
  const parts = [];
  for (const line of message.split("\n")) {
    const label = /^ {2}(\S.{5}) ?(.*)$/.exec(line);
    if (label) {
      const row = put("div", "labelled");
      row.append(put("b", "soft", label[1].trim()), put("pre", "", label[2]));
      parts.push(row);
    } else if (parts.length && line.startsWith("         ") && parts[parts.length - 1].className) {
      parts[parts.length - 1].lastChild.textContent += `\n${line.slice(9)}`;
    } else {
      parts.push(put("p", "", line));
    }
  }
  return parts;
};

/** @param {View.Document} data @param {(kernel: number, position: number) => void} jumpTo */
const heading = (data, jumpTo) => {
  byId("name").replaceChildren(...data.name.split(/(?<=_)/).flatMap((part) => [part, put("wbr")]));
  const whose = data.whose === "par" ? "the solution's launch" : "your launch";
  write(byId("about"), `${data.title}: ${data.about || `${whose}, on a TPU ${data.chip}`}`);
  write(byId("case"), data.case);
  const pill = put("span", `pill ${data.verdict.state}`, data.verdict.words);
  byId("verdict").append(pill);
  if (data.verdict.state === "todo" || data.verdict.state === "unasked") {
    byId("verdict").append(put("span", "soft small", ` ${data.verdict.text}`));
  } else if (data.verdict.text) {
    finding(data, jumpTo);
  }
  if (data.trouble && !data.verdict.text.includes(data.trouble.split("\n")[0])) {
    byId("trouble").hidden = false;
    byId("trouble").querySelector("div").replaceChildren(...paragraphs(data.trouble));
  }
  const choice = byId("kernel");
  data.kernels.forEach((each, n) => choice.append(new Option(`${n + 1}. ${each.name}`, String(n))));
  byId("kernel-choice").hidden = data.kernels.length < 2;
};

// ---- a finding ----

// First the array and the block that are wrong, and by how much; then the message of the grader.
/** @param {View.Document} data @param {(kernel: number, position: number) => void} jumpTo */
const finding = (data, jumpTo) => {
  const [headline, ...rest] = data.verdict.text.split("\n");
  const results = wrongResults(data);
  const first = results.find(({ wrong }) => wrong.blocks.length);
  byId("finding").hidden = false;
  byId("finding").open = data.verdict.state === "failed";
  write(byId("finding").querySelector("summary"), first ? blockInWords(first.wrong) : headline);
  const message = paragraphs(rest.join("\n"));
  byId("finding").querySelector("div").replaceChildren(...(first ? [put("p", "", headline)] : []), ...message);
  if (first) {
    const step = first.stepOf(first.wrong.blocks[0].at);
    if (step >= 0) {
      const button = goButton(`go to step ${commas(step + 1)}, which writes this block`, () => jumpTo(first.kernel, step));
      button.id = "to-wrong";
      byId("finding").querySelector("div").prepend(button);
    } else if (step === -2) {
      byId("finding").querySelector("div").prepend(put("p", "small", "No step writes this block."));
    }
  }
  for (const result of results) wrongList(result, jumpTo);
};

/** @param {View.WrongElements} wrong */
const blockInWords = (wrong) => {
  const [block] = wrong.blocks;
  const share = block.wrong === block.of ? `all ${many(block.of, "element")}` : `${commas(block.wrong)} of ${many(block.of, "element")}`;
  const verb = block.wrong === 1 && block.of > 1 ? "is" : "are";
  const error = block.worst === "not a number" ? "; not all of them are numbers" : `, by up to ${block.worst}`;
  return `${wrong.name}${wrong.of_blocks > 1 ? ` block ${tuple(block.at)}` : ""}: ${share} ${verb} wrong${error}.`;
};

/** @param {string} words @param {() => void} act */
const goButton = (words, act) => {
  const button = put("button", "go-to", words);
  button.type = "button";
  button.addEventListener("click", () => { act(); byId("stage").scrollIntoView({ block: "start" }); });
  return button;
};

// The wrong results: of the kernels' outputs, with the step that writes a block, and others.
/** @param {View.Document} data @returns {WrongResult[]} */
const wrongResults = (data) => {
  /** @type {WrongResult[]} */
  const found = data.kernels.flatMap((each, kernel) => each.operands.filter((operand) => operand.wrong)
    .map((operand) => ({ kernel, wrong: operand.wrong, stepOf: writerOf(operand, each) })));
  return [...found, ...data.other.map((wrong) => ({ kernel: -1, wrong, stepOf: () => -1 }))];
};

// A block's last writer, as a step from 0; -1 if that isn't known, -2 if no step writes it.
/** @type {(operand: View.OperandView, kernel: View.KernelView) => (at: number[]) => number} */
const writerOf = (operand, kernel) => {
  const runs = unpackRuns(operand, kernel.steps);
  if (!runs || operand.element || kernel.shown < 2) return () => -1;
  /** @type {Map<string, number>} */
  const last = new Map();
  runs.first.forEach((_, r) => last.set(runs.start(runs.place[r]).join(), runs.last(r)));
  return (at) => {
    const step = last.get(at.map((number, axis) => number * operand.wrong.block[axis]).join());
    return step === undefined ? (kernel.shown < kernel.steps ? -1 : -2) : step;
  };
};

// The wrong blocks one by one: the heat map in numbers.
/** @param {WrongResult} result @param {(kernel: number, position: number) => void} jumpTo */
const wrongList = ({ wrong, kernel, stepOf }, jumpTo) => {
  const box = put("div", "wide");
  const table = put("table", "small");
  const verb = wrong.wrong_blocks === 1 ? "contains" : "contain";
  table.append(put("caption", "", `${wrong.name}: ${commas(wrong.wrong_blocks)} of ${many(wrong.of_blocks, "block")} ${verb} wrong elements`));
  const shown = wrong.blocks.slice(0, 12), steps = shown.map((block) => stepOf(block.at));
  const known = steps.some((step) => step !== -1);
  const head = put("tr");
  ["block", "wrong elements", "largest error", ...(known ? ["written by"] : [])].forEach((words) => head.append(put("th", "", words)));
  table.append(head);
  shown.forEach((block, n) => {
    const row = put("tr");
    row.append(put("td", "code", tuple(block.at)), put("td", "", `${commas(block.wrong)} of ${commas(block.of)}`), put("td", "", block.worst));
    if (known) {
      const cell = put("td");
      cell.append(steps[n] >= 0 ? goButton(`step ${commas(steps[n] + 1)}`, () => jumpTo(kernel, steps[n])) : "no step");
      row.append(cell);
    }
    table.append(row);
  });
  box.append(table);
  byId("wrong-list").append(box);
  if (wrong.wrong_blocks > 12) byId("wrong-list").append(put("p", "soft small", `and ${commas(wrong.wrong_blocks - 12)} more`));
};

const BLOCKS = [["swatch held", "in VMEM, stays"], ["swatch in", "arrives from HBM"], ["swatch out", "is written back to HBM"],
  ["swatch next", "next, on its way"], ["swatch visited", "has been moved"]];
const COPIES = [["swatch came", "copy from HBM, in flight"], ["swatch out", "copy to HBM, in flight"],
  ["swatch wait", "the core waits, or hasn't waited yet"], ["swatch held", "the core computes; data in use"]];

/** @param {View.KernelView} kernel @param {Unit} unit */
const legend = (kernel, unit) => {
  const shown = unit === "row" ? [] : [...unit === "step" ? BLOCKS : COPIES];
  if (kernel.operands.some((operand) => operand.wrong)) shown.push(["swatch red", "wrong"], ["swatch nan", "not a number"]);
  byId("legend").replaceChildren(...shown.map(([className, words]) => {
    const item = put("li");
    item.append(put("i", className), words);
    return item;
  }));
};
