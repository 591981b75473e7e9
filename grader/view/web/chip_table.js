// @ts-check
// The chips of a mesh side by side: a row for each moment, a column for each chip, and the links.

class ChipRows {
  /** @param {View.ChipTable | null} chipTable */
  constructor(chipTable) {
    byId("chips").hidden = !chipTable;
    /** @type {HTMLElement[]} */
    this.rows = [];
    this.shown = -1;
    if (!chipTable) return;
    const table = put("table");
    const head = put("tr");
    for (const name of ["row", ...chipTable.chips, "on the links"]) head.append(put("th", "", name));
    table.append(head);
    this.rows = chipTable.moments.map((chips, number) => {
      const row = put("tr");
      row.append(put("th", "soft", String(number + 1)));
      for (const phrases of [...chips, chipTable.links[number]]) row.append(phrasesCell(phrases));
      return row;
    });
    table.append(...this.rows);
    byId("chips-table").replaceChildren(table);
    write(byId("chips-note"), chipTable.note);
  }

  // Mark a row, and scroll to it, except when the page opens.
  /** @param {number} row */
  show(row) {
    this.rows.forEach((each, number) => {
      each.classList.toggle("current", number === row);
      if (number === row) each.setAttribute("aria-current", "step"); else each.removeAttribute("aria-current");
    });
    if (this.shown >= 0 && this.shown !== row) this.rows[row]?.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.shown = row;
  }
}

/** @param {string[]} phrases */
function phrasesCell(phrases) {
  const cell = put("td");
  for (const phrase of phrases) {
    const waits = phrase.startsWith("waits for");
    cell.append(put("p", waits ? "waits small" : "small", phrase));
  }
  return cell;
}
