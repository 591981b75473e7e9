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

/** @param {View.Document} data */
const heading = (data) => {
  byId("name").replaceChildren(...data.name.split(/(?<=_)/).flatMap((part) => [part, put("wbr")]));
  const whose = data.whose === "par" ? "the solution's launch" : "your launch";
  write(byId("about"), `${data.title}: ${whose}, on a TPU ${data.chip}`);
  write(byId("case"), data.case);
  const pill = put("span", `pill ${data.verdict.state}`, data.verdict.words);
  byId("verdict").append(pill);
  if (data.verdict.state === "todo" || data.verdict.state === "unasked") {
    byId("verdict").append(put("span", "soft small", ` ${data.verdict.text}`));
  } else if (data.verdict.text) {
    const [headline, ...rest] = data.verdict.text.split("\n");
    byId("finding").hidden = false;
    byId("finding").open = !data.kernels.length;
    write(byId("finding").querySelector("summary"), headline);
    byId("finding").querySelector("div").replaceChildren(...paragraphs(rest.join("\n")));
    wrongList(data);
  }
  if (data.trouble && !data.verdict.text.includes(data.trouble.split("\n")[0])) {
    byId("trouble").hidden = false;
    byId("trouble").querySelector("div").replaceChildren(...paragraphs(data.trouble));
  }
  const choice = byId("kernel");
  data.kernels.forEach((each, n) => choice.append(new Option(`${n + 1}. ${each.name}`, String(n))));
  byId("kernel-choice").hidden = data.kernels.length < 2;
};

// The wrong blocks one by one: the heat map in numbers.
/** @param {View.Document} data */
const wrongList = (data) => {
  const all = [...data.kernels.flatMap((each) => each.operands.map((operand) => operand.wrong)), ...data.other];
  for (const wrong of all.filter(Boolean)) {
    const table = put("table", "small");
    table.append(put("caption", "", `${wrong.name}: ${commas(wrong.wrong_blocks)} of ${many(wrong.of_blocks, "block")} hold wrong elements`));
    const head = put("tr");
    ["block", "wrong elements", "largest error"].forEach((words) => head.append(put("th", "", words)));
    table.append(head);
    wrong.blocks.slice(0, 12).forEach((block) => {
      const row = put("tr");
      row.append(put("td", "code", tuple(block.at)), put("td", "", `${commas(block.wrong)} of ${commas(block.of)}`), put("td", "", block.worst));
      table.append(row);
    });
    byId("wrong-list").append(table);
    if (wrong.wrong_blocks > 12) byId("wrong-list").append(put("p", "soft small", `and ${commas(wrong.wrong_blocks - 12)} more`));
  }
};

/** @param {View.KernelView} kernel */
const legend = (kernel) => {
  const shown = [["swatch held", "in VMEM, stays"], ["swatch in", "comes in from HBM"], ["swatch out", "goes back to HBM"],
    ["swatch next", "next, on its way"], ["swatch visited", "has been moved"]];
  if (kernel.operands.some((operand) => operand.wrong)) shown.push(["swatch red", "wrong"], ["swatch nan", "not a number"]);
  byId("legend").replaceChildren(...shown.map(([className, words]) => {
    const item = put("li");
    item.append(put("i", className), words);
    return item;
  }));
};
