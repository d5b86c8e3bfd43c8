// @ts-check
// Elements, and what came with the page. Text is only ever set as text: whatever is in a name stays a name.
// Nothing is computed from the numbers that has a statistical meaning.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string | number | boolean | ((event: Event) => void)>} attributes a function listens; false is left out
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/** @param {string} tag @param {Record<string, string | number>} attributes @param {...Node} children */
function drawing(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** An element that the page is sure to have. @param {string} id */
const part = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
/** Pixels of the page's letters: charts grow with them. */
const em = () => Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
/** Tell those who listen to the page. @param {string} text */
const say = (text) => (part("said").textContent = text);
/** @param {number[]} values */
const rising = (values) => [...new Set(values)].sort((a, b) => a - b);

const DATA = /** @type {Payload} */ (JSON.parse(part("data").textContent ?? ""));
const TABLE = /** @type {HTMLTableElement} */ (part("cells-table"));
const HEADS = [...(TABLE.tHead?.rows[0].cells ?? [])];
const KEYS = HEADS.map((head) => head.dataset.key ?? "");
const TITLES = HEADS.map((head) => head.textContent ?? "");
/** The rows by cell: the table itself may be sorted. */
const ROWS = [...TABLE.tBodies[0].rows];

/** By group/run/method: the numbers of the cells, by rising length. */
const SERIES = d3.group(DATA.cells.group.keys(), (cell) => lineOf(cell));

/** @param {number} cell */
function lineOf(cell) {
  const { group, run, method } = DATA.cells;
  return `${group[cell]}/${run[cell]}/${method[cell]}`;
}

/** @param {string} key */
const quantityOf = (key) => DATA.quantities.find((each) => each.key === key);
/** The quantities of which some cell of a group has a figure. @param {number} group */
const quantitiesOf = (group) =>
  DATA.quantities.filter(
    (each) => each.scales && DATA.cells.group.some((own, cell) => own === group && each.value[cell] !== null),
  );
/** @param {number} cell */
const statusOf = (cell) => DATA.statuses[DATA.cells.status[cell]];
/** @param {number} N */
const lengthWords = (N) => DATA.lengths[String(N)] ?? String(N);
/** `, ` and the name of a run where there are several. @param {number} run */
const runWords = (run) => (DATA.runs.length > 1 ? `, ${DATA.runs[run].name}` : "");
/** The method of a cell, and its run where there are several. @param {number} cell */
const nameOf = (cell) => `${DATA.methods[DATA.cells.method[cell]].name}${runWords(DATA.cells.run[cell])}`;
/** An entry of the table, as text. @param {number} cell @param {string} key */
const entry = (cell, key) => ROWS[cell].cells[KEYS.indexOf(key)]?.textContent?.trim() ?? "";

/** Write `20 ms`; `scale` is that of a whole axis. @param {number} value @param {string} unit @param {[number, string]} [scale] */
function said(value, unit, scale) {
  const known = DATA.units[unit];
  const [size, word] = scale ?? known.find((each) => Math.abs(value) >= each[0] * (1 - 1e-9)) ?? known[known.length - 1];
  const digits = String(Number((value / size).toPrecision(6)));
  return /^[%×]$/.test(word) ? `${digits}${word}` : `${digits} ${word}`.trim();
}
