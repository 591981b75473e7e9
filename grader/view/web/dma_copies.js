// @ts-check
// A kernel's own copies in words: how they overlap, the actions at a moment.

// While the core computes, no copy is in flight; then the core waits for one.
/** @param {View.Timeline} data */
const takesTurns = ({ computing, hidden, waiting, until }) => hidden < 0.2 * computing && waiting > 0.1 * until;

/** @param {View.Copied} one */
const copiedWords = (one) => {
  const way = one.inward ? "in" : "out";
  const named = one.slots.length > 1 && one.slots.length <= 4 ? ` (${one.slots.join(", ")})` : "";
  const slots = one.slots.length > 1 ? `${one.slots.length} slots${named}` : "one slot";
  const counted = one.semaphores.length && one.semaphores.length <= 4 ? `, counted by ${one.semaphores.join(", ")}` : "";
  return `${one.operand} ${way}: ${many(one.copies, "DMA")}, ${slots}${counted}, at most ${one.most} in flight at a time`;
};

/** @param {View.Timeline} data */
const overlapWords = (data) => {
  const share = Math.round(100 * data.hidden / Math.max(data.computing, 1));
  const verdict = takesTurns(data) ? " Copying and computing take turns: nothing overlaps." : "";
  return `Copied by hand. ${data.by_hand.map(copiedWords).join("; ")}. The core computes for ${timeOf(data.computing / data.clock)}; a DMA is in flight during ${share} % of that.${verdict}`;
};

// Each lane's action at a moment; the bus only repeats the others.
/** @param {OneLane[]} lanes @param {number} cycle @param {number} clock */
const momentWords = (lanes, cycle, clock) => {
  const found = lanes.flatMap((lane) => {
    const n = upTo(lane.end, cycle);
    if (lane.name === "HBM" || n >= lane.start.length || lane.start[n] > cycle) return [];
    const what = lane.kinds[lane.kind[n]];
    if (lane.name === "core") return [`the core ${what}`];
    const moves = what.endsWith(" in") || what.endsWith(" out");
    return [`${lane.name}: ${moves ? `on its way until ${timeOf(lane.end[n] / clock)}` : what}`];
  });
  return `At ${timeOf(cycle / clock)}: ${found.join("; ")}.`;
};
