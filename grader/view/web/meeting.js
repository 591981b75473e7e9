// @ts-check
// The chips of a mesh side by side: a row for each moment, a column for each chip, and the links.

/** @param {View.Meeting | null} meeting */
function showMeeting(meeting) {
  byId("meeting").hidden = !meeting;
  if (!meeting) return;
  const table = put("table");
  const head = put("tr");
  for (const name of ["", ...meeting.chips, "on the links"]) head.append(put("th", "", name));
  table.append(head);
  meeting.moments.forEach((chips, number) => {
    const row = put("tr");
    row.append(put("th", "soft", String(number + 1)));
    for (const phrases of [...chips, meeting.links[number]]) row.append(phrasesCell(phrases));
    table.append(row);
  });
  byId("meeting-table").replaceChildren(table);
  write(byId("meeting-note"), meeting.note);
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
