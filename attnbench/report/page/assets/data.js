// @ts-check
// What came with the page. Nothing is computed from it that has a statistical meaning.

const DATA = /** @type {Payload} */ (JSON.parse(part("data").textContent ?? ""));
const TABLE = /** @type {HTMLTableElement} */ (part("cells-table"));
/** By cell, as long as nobody sorts the table: then by this list. */
const ROWS = [...TABLE.tBodies[0].rows];
const KEYS = [...(TABLE.tHead?.rows[0].cells ?? [])].map((head) => head.dataset.key ?? "");

/** By group/run/method: the numbers of the cells, by rising length. */
const SERIES = (() => {
  /** @type {Map<string, number[]>} */
  const found = new Map();
  const { group, run, method } = DATA.cells;
  group.forEach((_, cell) => {
    const key = `${group[cell]}/${run[cell]}/${method[cell]}`;
    const numbers = found.get(key);
    if (numbers) numbers.push(cell);
    else found.set(key, [cell]);
  });
  return found;
})();

/**
 * @param {string} key
 * @returns {Quantity | undefined}
 */
function quantityOf(key) {
  return DATA.quantities.find((each) => each.key === key);
}

/**
 * `time per token`
 * @param {Quantity} quantity
 * @param {Group} group
 */
function titleOf(quantity, group) {
  return quantity.per ? `${quantity.title} ${group.per}` : quantity.title;
}

/**
 * Quantities of which some cell of a group has a figure.
 * @param {number} group
 * @param {(quantity: Quantity) => boolean} suits
 */
function quantitiesOf(group, suits) {
  const cells = DATA.cells.group.map((each, cell) => (each === group ? cell : -1)).filter((cell) => cell >= 0);
  return DATA.quantities.filter((each) => suits(each) && cells.some((cell) => each.value[cell] !== null));
}

/** @param {number} cell */
function statusOf(cell) {
  return DATA.statuses[DATA.cells.status[cell]];
}

/** @param {number} cell */
function failed(cell) {
  return statusOf(cell).key !== "ok";
}

/** @param {number} N */
function lengthWords(N) {
  return DATA.lengths[String(N)] ?? String(N);
}

/**
 * An entry of the table, as text.
 * @param {number} cell
 * @param {string} key
 */
function entry(cell, key) {
  return ROWS[cell].cells[KEYS.indexOf(key)]?.textContent?.trim() ?? "";
}
