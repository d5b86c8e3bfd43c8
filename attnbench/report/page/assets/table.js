// @ts-check
// The table of all cells: sorted by any column, filtered by words, copied as it stands.

/** More rows than these are shown at request only; as in the style sheet. */
const PAGE = 250;
const COLLATOR = new Intl.Collator("en", { numeric: true });
const TEXTS = ROWS.map((row) => (row.textContent ?? "").replaceAll("\n", " ").toLowerCase());

/**
 * What a column is sorted by and copied as in numbers; undefined where it is text.
 * @param {string} key
 * @returns {(number | null)[] | undefined}
 */
function numbersOf(key) {
  return key === "N" ? DATA.cells.N : quantityOf(key)?.value;
}

/**
 * The cells that are shown, in order; what has no number comes last, whichever the direction.
 * @param {View} view
 * @returns {number[]}
 */
function rowsOf(view) {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const cells = ROWS.map((_, cell) => cell).filter((cell) => words.every((word) => TEXTS[cell].includes(word)));
  const key = view.sort.replace(/^-/, "");
  if (!key) return cells;
  const sign = view.sort.startsWith("-") ? -1 : 1;
  const known = numbersOf(key);
  if (known) return cells.sort((a, b) => byNumber(known[a], known[b], sign) || a - b);
  const texts = ROWS.map((_, cell) => entry(cell, key));
  return cells.sort((a, b) => byText(texts[a], texts[b], sign) || a - b);
}

/**
 * @param {number | null} a
 * @param {number | null} b
 * @param {number} sign
 */
function byNumber(a, b, sign) {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return sign * (a - b);
}

/**
 * @param {string} a
 * @param {string} b
 * @param {number} sign
 */
function byText(a, b, sign) {
  if (!a || !b) return Number(!a) - Number(!b);
  return sign * COLLATOR.compare(a, b);
}

/** @param {View} view */
function paintTable(view) {
  const cells = rowsOf(view);
  const shown = new Set(cells);
  for (const [cell, row] of ROWS.entries()) row.hidden = !shown.has(cell);
  // those that are left out come last, where the style sheet counts
  const others = ROWS.filter((_, cell) => !shown.has(cell));
  TABLE.tBodies[0].replaceChildren(...cells.map((cell) => ROWS[cell]), ...others);
  TABLE.classList.toggle("whole", view.rows === "all");
  const [key, falling] = [view.sort.replace(/^-/, ""), view.sort.startsWith("-")];
  for (const head of TABLE.tHead?.rows[0].cells ?? []) {
    if (head.dataset.key === key) head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const some = view.rows === "first" && cells.length > PAGE;
  const first = some ? `The first ${PAGE} of ${cells.length}` : String(cells.length);
  part("cells-count").textContent = `${first}${cells.length === ROWS.length ? "" : ` of ${ROWS.length}`} cells.`;
  part("cells-more").hidden = !some;
}

/**
 * Once: buttons in the heads, the filter, the copies.
 * @param {View} view
 * @param {(changes: Partial<View>) => void} change
 */
function buildTable(view, change) {
  for (const head of TABLE.tHead?.rows[0].cells ?? []) {
    const key = head.dataset.key ?? "";
    const words = head.textContent ?? "";
    head.replaceChildren(element("button", { type: "button", click: () => change({ sort: turned(now().sort, key) }) }, words));
  }
  /** @type {HTMLInputElement} */
  const filter = element("input", {
    type: "search",
    value: view.filter,
    input: () => change({ filter: filter.value }),
    id: "cells-filter",
  });
  part("cells-controls").append(
    element("label", {}, "Rows with these words", filter),
    copyButton("Copy CSV", "the rows as CSV", () => asCsv(numberRows())),
    copyButton("Copy Markdown", "the rows as Markdown", () => asMarkdown(textRows())),
    copyButton("Copy LaTeX", "the rows as LaTeX", () => asTex(textRows())),
    element("button", { type: "button", id: "cells-more", click: () => change({ rows: "all" }) }, "Show all rows"),
  );
}

/**
 * Rising, falling, as it came.
 * @param {string} sort
 * @param {string} key
 */
function turned(sort, key) {
  return sort === key ? `-${key}` : sort === `-${key}` ? "" : key;
}

/** As shown, the head first; of the rows that the filter leaves. */
function textRows() {
  const heads = [...(TABLE.tHead?.rows[0].cells ?? [])].map((head) => head.textContent ?? "");
  return [heads, ...rowsOf(now()).map((cell) => KEYS.map((key) => entry(cell, key)))];
}

/** In SI units, with the ends of the ranges. */
function numberRows() {
  const heads = KEYS.flatMap((key) => {
    const quantity = quantityOf(key);
    return quantity ? [`${key}${unitWord(quantity)}`, ...(quantity.low.length ? [`${key}_low`, `${key}_high`] : [])] : [key];
  });
  return [heads, ...rowsOf(now()).map((cell) => KEYS.flatMap((key) => numberFields(cell, key)))];
}

/**
 * @param {number} cell
 * @param {string} key
 * @returns {(string | number | null)[]}
 */
function numberFields(cell, key) {
  const quantity = quantityOf(key);
  if (quantity) return [quantity.value[cell], ...(quantity.low.length ? [quantity.low[cell], quantity.high[cell]] : [])];
  return [key === "N" ? DATA.cells.N[cell] : entry(cell, key)];
}

/** @param {Quantity} quantity */
function unitWord(quantity) {
  return { s: "_s", B: "_bytes", "tokens/s": "_tokens_per_s" }[quantity.unit] ?? "";
}
