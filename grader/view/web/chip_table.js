// @ts-check
// The chips of a mesh side by side: a row for each moment, a column for each chip, and the links.

/** @param {View.ChipTable | null} chipTable */
function showChipTable(chipTable) {
  byId("chips").hidden = !chipTable;
  if (!chipTable) return;
  const table = put("table");
  const head = put("tr");
  for (const name of ["", ...chipTable.chips, "on the links"]) head.append(put("th", "", name));
  table.append(head);
  chipTable.moments.forEach((chips, number) => {
    const row = put("tr");
    row.append(put("th", "soft", String(number + 1)));
    for (const phrases of [...chips, chipTable.links[number]]) row.append(phrasesCell(phrases));
    table.append(row);
  });
  byId("chips-table").replaceChildren(table);
  write(byId("chips-note"), chipTable.note);
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
