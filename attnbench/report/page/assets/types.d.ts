// What the page is given. For `tsc --checkJs` only: nothing of this is in the page.

declare const Plot: typeof import("@observablehq/plot");

interface Run {
  name: string;
  /** By the `roof` of a group: FLOPs per second, bytes per second. */
  roofs: Record<string, [number, number]>;
}

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
  roof: string;
  /** What its times are divided into: `per sample`. */
  per: string;
  methods: number[];
  /** Those that are drawn at first. */
  first: number[];
}

interface Quantity {
  key: string;
  title: string;
  unit: string;
  per: boolean;
  scales: boolean;
  cost: boolean;
  loss: boolean;
  /** By cell. */
  value: (number | null)[];
  low: (number | null)[];
  high: (number | null)[];
  /** By cell that failed: where its line would go on. */
  beyond: Record<string, number>;
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

interface Learner {
  cell: number;
  loss?: Learnt;
  accuracy?: Learnt;
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
  runs: Run[];
  methods: Method[];
  groups: Group[];
  first: number;
  statuses: { key: string; short: string }[];
  cells: { run: number[]; group: number[]; method: number[]; N: number[]; status: number[] };
  quantities: Quantity[];
  roofline: { intensity: (number | null)[]; rate: (number | null)[]; roof: (number | null)[] };
  pairs: Pairs[];
  learning: Learner[];
  units: Record<string, [number, string][]>;
  lengths: Record<string, string>;
}

/** A point that can be pointed at, in pixels of its chart; `series` is what the arrow keys stay on. */
interface Target {
  cell: number;
  x: number;
  y: number;
  series: string;
  /** Of the point itself, where the cell has several. */
  words?: [string, string];
}

type Scale = "log" | "linear";

/** What is shown; everything that a link restores. */
interface View {
  quantity: string;
  group: number;
  x: Scale;
  y: Scale;
  runs: "side" | "over";
  /** Of a training: what its curves go over. */
  over: "updates" | "seconds" | "N";
  curve: "loss" | "accuracy";
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
