// What document.py gives the page, as JSON has it. Written by: python -m tests.view.document_types

declare namespace View {
  interface WrongBlock {
    at: number[];
    wrong: number;
    of: number;
    worst: string;
  }

  interface WrongElements {
    name: string;
    shape: number[];
    wrong: number;
    wrong_blocks: number;
    of_blocks: number;
    block: number[];
    size: number[];
    cells: number[];
    share: number[];
    nan: number[];
    blocks: WrongBlock[];
  }

  interface Lane {
    name: string;
    kinds: string[];
    slices: number[];
  }

  interface Copied {
    operand: string;
    inward: boolean;
    copies: number;
    size: number;
    slots: string[];
    semaphores: string[];
    most: number;
  }

  interface Timeline {
    cycles: number;
    until: number;
    clock: number;
    steps: number[];
    turns: number[];
    lanes: Lane[];
    by_hand: Copied[];
    computing: number;
    hidden: number;
    waiting: number;
  }

  interface OperandPath {
    first: number[];
    place: number[];
    starts: number[];
    sizes: number[];
  }

  interface OperandView {
    label: string;
    role: string;
    dtype: string;
    shape: number[];
    block: number[];
    squeezed: number[];
    space: string;
    note: string;
    counted: boolean;
    moves: number;
    bytes: number;
    least: number;
    element: boolean;
    windows: number;
    runs: OperandPath | null;
    wrong: WrongElements | null;
  }

  interface PrefetchTable {
    operand: number;
    cells: number[] | null;
    untold: number[];
  }

  interface TableCellRead {
    operand: number;
    table: number;
    first: number[];
    cell: number[];
  }

  interface Held {
    name: string;
    use: string;
    shape: string;
    buffers: number;
    size: number;
  }

  interface VmemView {
    limit: number;
    used: number;
    reported: boolean;
    held: Held[];
  }

  interface ChipTable {
    chips: string[];
    moments: ((string[])[])[];
    links: (string[])[];
    note: string;
  }

  interface KernelView {
    name: string;
    grid: (number | null)[];
    steps: number;
    shown: number;
    read: number;
    written: number;
    least: number;
    operands: OperandView[];
    tables: PrefetchTable[];
    reads: TableCellRead[];
    memory: VmemView;
    timeline: Timeline | null;
    untold: string;
    refusal: string;
    chip_table: ChipTable | null;
  }

  interface VerdictView {
    state: string;
    words: string;
    text: string;
  }

  interface NumberTable {
    title: string;
    index: string;
    columns: string[];
    rows: (string[])[];
    wrong: number[];
    note: string;
  }

  interface RoofOfDtype {
    name: string;
    peak: number;
  }

  interface PredictedPoint {
    name: string;
    bytes: number;
    operations: number;
    seconds: number;
  }

  interface RooflinePicture {
    bandwidth: number;
    roofs: RoofOfDtype[];
    points: PredictedPoint[];
    note: string;
  }

  interface CaughtKernels {
    ran: boolean;
    caught: number;
    of: number;
    accepted: number;
    of_right: number;
  }

  interface Document {
    schema: number;
    name: string;
    title: string;
    case: string;
    chip: string;
    whose: string;
    verdict: VerdictView;
    trouble: string;
    kernels: KernelView[];
    other: WrongElements[];
    about: string;
    numbers: NumberTable[];
    read_by: string;
    roofline: RooflinePicture | null;
    trials: CaughtKernels | null;
  }
}
