// What the page's scripts have names for beyond the document: page.html's elements, and shapes.

/** The elements of page.html that have an id; all others are HTMLElement. */
interface Elements {
  finding: HTMLDetailsElement;
  help: HTMLDialogElement;
  kernel: HTMLSelectElement;
  slider: HTMLInputElement;
  speed: HTMLSelectElement;
  curve: HTMLCanvasElement;
  timeline: HTMLCanvasElement;
  play: HTMLButtonElement;
  "scratch-card": HTMLTemplateElement;
}

/** Numbers that may also be in an array of fixed type. */
type Numbers = number[] | Int32Array | Float64Array;
/** Pixels: left, top; and width, height. */
type Point = [number, number];
type Box = [number, number, number, number];
/** Pixels: what is drawn on. */
type Context = CanvasRenderingContext2D;
/** The style's colours by name. */
type Look = Record<string, string>;
/** What becomes of an operand's block at a step. */
type Fate = "in" | "out" | "stays";
/** A buffer in VMEM on a card: its box, which block it holds, and what becomes of that. */
type Slot = { box: HTMLElement; index: HTMLElement; what: HTMLElement };
/** An operand's block at a step, in words. */
type Clause = { state: Fate; words: string };

/** What a browser's console, and the tests, can ask of the page. */
declare var kataView: { go: (step: number) => void; state: { step: number } };

/** One lane of the timeline: when each slice begins and ends, in cycles, and its kind's number. */
type OneLane = { name: string; kinds: string[]; start: Int32Array; end: Int32Array; kind: Int32Array };

// What some function returns.
type OperandRuns = ReturnType<typeof unpackRuns>;
type Layout = ReturnType<typeof layoutOf>;
