// Types of the page's scripts, in addition to the document's: page.html's elements, and shapes.

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
  "roofline-picture": HTMLCanvasElement;
}

/** Numbers in a list or a typed array. */
type Numbers = number[] | Int32Array | Float64Array;
/** Pixels: left, top; and width, height. */
type Point = [number, number];
type Box = [number, number, number, number];
/** The canvas to draw on, in pixels. */
type Context = CanvasRenderingContext2D;
/** The style's colours by name. */
type Look = Record<string, string>;
/** The move of an operand's block at a step. */
type Fate = "in" | "out" | "stays";
/** A buffer in VMEM on a card: its box, the index of its block, and that block's state. */
type Slot = { box: HTMLElement; index: HTMLElement; what: HTMLElement };
/** The kind of the player's positions. */
type Unit = "step" | "turn" | "event" | "row";
/** A copy that starts or a wait that begins, at a cycle. */
type Happening = { at: number; words: string };
/** A wrong result of a kernel, or of none (-1), and the step that writes a block. */
type WrongResult = { kernel: number; wrong: View.WrongElements; stepOf: (at: number[]) => number };
/** An operand's block at a step, in words. */
type Clause = { state: Fate; words: string };

/** The page's interface for a browser's console and for tests. */
declare var kataView: { go: (position: number) => void; state: { position: number; playing: boolean } };

/** One lane of the timeline: when each slice begins and ends, in cycles, and its kind's number. */
type OneLane = { name: string; kinds: string[]; start: Int32Array; end: Int32Array; kind: Int32Array };

// Return types of functions.
type OperandRuns = ReturnType<typeof unpackRuns>;
type Layout = ReturnType<typeof layoutOf>;
