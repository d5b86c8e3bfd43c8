// What the page is given. For `tsc --checkJs` only: nothing of this is in the page.

declare const Plot: typeof import("@observablehq/plot");
declare const d3: typeof import("d3");

interface Method {
  name: string;
  color: string;
  /** As `stroke-dasharray`; empty for none. */
  dash: string;
  /** Of the marker, in units of its radius; none of a circle. */
  corners: [number, number][];
  filled: boolean;
}

interface Group {
  workload: string;
  mask: string;
  conditions: string;
  /** By run, on the device of its cells: FLOPs per second, bytes per second. */
  roofs: Record<number, [number, number]>;
  methods: number[];
  /** Those that are drawn at first. */
  first: number[];
}

interface Quantity {
  key: string;
  /** Its name in table.csv. */
  column: string;
  /** By group: `time per token`. */
  titles: string[];
  unit: string;
  /** Whether it is shown over length, and has a column. */
  scales: boolean;
  /** By cell. */
  value: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  /** By group/run/method. */
  fits: Record<string, string>;
}

/** On the way of a training, medians over the seeds. */
interface Learnt {
  update: (number | null)[];
  seconds: (number | null)[];
  value: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  /** What who knows nothing comes to. */
  chance: number | null;
}

interface Learner extends Partial<Record<View["curve"], Learnt>> {
  cell: number;
}

interface Pairs {
  group: number;
  run: number;
  N: number;
  /** The cell that has the cost, and the one that has the loss. */
  cells: [number, number][];
  /** By cost/loss: places in `cells`, by rising cost. */
  fronts: Record<string, number[]>;
}

interface Payload {
  runs: { name: string }[];
  methods: Method[];
  groups: Group[];
  first: number;
  /** What each is called. */
  workloads: Record<string, string>;
  statuses: string[];
  cells: { run: number[]; group: number[]; method: number[]; N: number[]; status: number[] };
  quantities: Quantity[];
  roofline: { intensity: (number | null)[]; rate: (number | null)[] };
  pairs: Pairs[];
  learning: Learner[];
  learnt: Record<string, string>;
  units: Record<string, [number, string][]>;
  lengths: Record<string, string>;
  /** What LaTeX is given for a letter. */
  tex: Record<string, string>;
}

type Scale = "log" | "linear";

/** A point of a chart. */
interface Datum {
  method: number;
  run: number;
  cell: number;
  x: number;
  y: number;
  /** The series that the arrow keys stay on. */
  z: string;
  y1?: number;
  y2?: number;
  r?: number;
  /** The piece of its line, which breaks where a number has no place. */
  piece?: number;
  words?: string;
  /** What the point says of itself, where the cell has several. */
  said?: [string, string];
}

interface Axis {
  title: string;
  scale: Scale;
  low: number;
  high: number;
  ticks: Map<number, string>;
}

interface Chart {
  caption: string;
  /** For those who do not see it. */
  words: string;
  width: number;
  height: number;
  /** Room beside the panel. */
  right?: number;
  x: Axis;
  y: Axis;
  marks: import("@observablehq/plot").Markish[];
  /** What can be pointed at. */
  data: Datum[];
}

/** One method of one run. */
interface Line {
  method: number;
  run: number;
  z: string;
  points: Datum[];
  failed: number[];
}

/** What is drawn over length or over a training. */
interface Curves {
  title: string;
  unit: string;
  scale: Scale;
  /** Of who knows nothing: a line across. */
  level: number | null;
  /** Markers on a line, about. */
  marked: number;
  /** What is said where no method has a number. */
  nothing: string;
  about: string;
  lines: (runs: number[]) => Line[];
  across: (lines: Line[], width: number) => Axis;
}

/** How far an axis of values reaches: up to the roof, a share of it, there are lines, and crosses above. */
interface Span {
  low: number;
  high: number;
  scale: Scale;
  roof: number;
  /** The share of a row of crosses. */
  row: number;
  /** Its shares, from the bottom, by value. */
  shares: import("d3").ScaleContinuousNumeric<number, number>;
}

/** What is shown; everything that a link restores. */
interface View {
  quantity: string;
  group: number;
  x: Scale;
  y: Scale;
  runs: "side" | "over";
  /** Of a training: what its curves go over. */
  over: "updates" | "seconds" | "N";
  curve: "loss" | "accuracy" | "error_rate";
  /** Methods to begin with, before `hide` and `show`. */
  methods: "first" | "all" | "none";
  hide: number[];
  show: number[];
  /** Runs that are left out. */
  without: number[];
  cost: string;
  loss: string;
  at: number;
  /** A column's key, with a minus in front for falling; empty as it came. */
  sort: string;
  filter: string;
  rows: "first" | "all";
  theme: "auto" | "light" | "dark";
}
