// @ts-check
// The table of all cells: sorted by any column, filtered by words, copied as it stands; what is copied is inert elsewhere too.

/** More rows than these are shown at request only; as in the style sheet. */
const PAGE = 250;
const COLLATOR = new Intl.Collator("en", { numeric: true });
const TEXTS = ROWS.map((row) => (row.textContent ?? "").replaceAll("\n", " ").toLowerCase());
const MARKS = /[\\`*{}[\]#|~$!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])/g;

/** The cells that are shown, in order; what has no value comes last, whichever the direction. @returns {number[]} */
function rowsShown() {
  const words = view.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const cells = [...ROWS.keys()].filter((cell) => words.every((word) => TEXTS[cell].includes(word)));
  const [key, sign] = [view.sort.replace(/^-/, ""), view.sort.startsWith("-") ? -1 : 1];
  if (!key) return cells;
  /** @type {(number | string | null)[]} */
  const known = key === "N" ? DATA.cells.N : (quantityOf(key)?.value ?? ROWS.map((_, cell) => entry(cell, key) || null));
  /** @param {number | string | null} a @param {number | string | null} b */
  const order = (a, b) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (typeof a === "number" && typeof b === "number" ? a - b : COLLATOR.compare(String(a), String(b)));
  };
  return cells.sort((a, b) => order(known[a], known[b]) || a - b);
}

function paintTable() {
  const cells = rowsShown();
  const shown = new Set(cells);
  for (const [cell, row] of ROWS.entries()) row.hidden = !shown.has(cell);
  // those that are left out come last, where the style sheet counts
  TABLE.tBodies[0].replaceChildren(...cells.map((cell) => ROWS[cell]), ...ROWS.filter((_, cell) => !shown.has(cell)));
  TABLE.classList.toggle("whole", view.rows === "all");
  const falling = view.sort.startsWith("-");
  for (const head of HEADS) {
    if (view.sort && head.dataset.key === view.sort.replace(/^-/, ""))
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  const some = view.rows === "first" && cells.length > PAGE;
  const first = some ? `The first ${PAGE} of ${cells.length}` : String(cells.length);
  part("cells-count").textContent = `${first}${cells.length === ROWS.length ? "" : ` of ${ROWS.length}`} cell${ROWS.length === 1 ? "" : "s"}.`;
  part("cells-more").hidden = !some;
}

/** Once: buttons in the heads, the filter, the copies. */
function buildTable() {
  HEADS.forEach((head, place) => {
    // rising, falling, as it came
    const turned = () => (view.sort === KEYS[place] ? `-${KEYS[place]}` : view.sort === `-${KEYS[place]}` ? "" : KEYS[place]);
    head.replaceChildren(element("button", { type: "button", click: () => change({ sort: turned() }) }, TITLES[place]));
  });
  /** @type {HTMLInputElement} */
  const filter = element("input", {
    type: "search",
    value: view.filter,
    input: () => change({ filter: filter.value }),
    id: "cells-filter",
  });
  part("cells-controls").append(
    element("label", {}, "Rows with these words", filter),
    copyButton("Copy CSV", "the rows as CSV", asCsv),
    copyButton("Copy Markdown", "the rows as Markdown", asMarkdown),
    copyButton("Copy LaTeX", "the rows as LaTeX", asTex),
    element("button", { type: "button", id: "cells-more", click: () => change({ rows: "all" }) }, "Show all rows"),
  );
}

/** In SI units, with the ends of the ranges. */
function asCsv() {
  /** @typedef {{head: string, values: (string | number | null)[]}} Column */
  /** @param {string} key @returns {Column[]} */
  const columnsAs = (key) => {
    const quantity = quantityOf(key);
    if (!quantity) return [{ head: key, values: key === "N" ? DATA.cells.N : ROWS.map((_, cell) => entry(cell, key)) }];
    const { column: head, value, low, high } = quantity;
    const ends = [
      { head: `${head}_low`, values: low },
      { head: `${head}_high`, values: high },
    ];
    return [{ head, values: value }, ...(low.length ? ends : [])];
  };
  const columns = KEYS.flatMap(columnsAs);
  /** A text that a spreadsheet would evaluate gets an apostrophe in front. @param {string | number | null} value */
  const field = (value) => `${typeof value === "string" && /^[=+\-@＝＋－＠]/.test(value) ? "'" : ""}${value ?? ""}`;
  const rows = [columns.map(({ head }) => head), ...rowsShown().map((cell) => columns.map(({ values }) => values[cell]))];
  return `${d3.csvFormatRows(rows.map((row) => row.map(field)))}\n`;
}

/** As shown, the head first. @returns {string[][]} */
const textRows = () => [TITLES, ...rowsShown().map((cell) => KEYS.map((key) => entry(cell, key)))];

function asMarkdown() {
  /** @param {string} text */
  const field = (text) =>
    text
      .replaceAll("&", "&amp;")
      .replaceAll("<", "&lt;")
      .replaceAll(">", "&gt;")
      .replace(MARKS, (mark) => `\\${mark}`);
  const [head, ...lines] = textRows().map((row) => `| ${row.map(field).join(" | ")} |\n`);
  return [head, `| ${KEYS.map((_, place) => (place ? "---:" : ":---")).join(" | ")} |\n`, ...lines].join("");
}

function asTex() {
  /** Latin fonts lack other letters. @param {string} letter */
  const plain = (letter) => {
    const code = letter.codePointAt(0) ?? 0;
    return DATA.tex[letter] ?? (code < 128 ? letter : `[U+${code.toString(16).toUpperCase().padStart(4, "0")}]`);
  };
  /** Two hyphens in a row would become a dash. @param {string} text */
  const field = (text) =>
    text
      .split(/-(?=-)/)
      .map((piece) => [...piece].map(plain).join(""))
      .join("-{}");
  // a row that starts with a bracket would be read as the option of what ends the row before
  const [head, ...lines] = textRows().map(
    (row) =>
      `${row
        .map(field)
        .join(" & ")
        .replace(/^(?=[[*])/, "{}")} \\\\`,
  );
  const body = ["\\toprule", head, "\\midrule", ...lines, "\\bottomrule"].join("\n");
  return `% needs \\usepackage{booktabs}\n\\begin{tabular}{@{}l${"r".repeat(KEYS.length - 1)}@{}}\n${body}\n\\end{tabular}\n`;
}

/** A button that copies, also where a page from a file may not use the clipboard, and says on itself that it did. @param {string} words @param {string} what @param {() => string} text */
function copyButton(words, what, text) {
  const button = element("button", { type: "button" }, words);
  button.addEventListener("click", async () => {
    const done =
      (await navigator.clipboard?.writeText(text()).then(
        () => true,
        () => false,
      )) || bySelection(text());
    say(done ? `Copied ${what}.` : "The browser refused to copy.");
    button.textContent = done ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = words), 1500);
  });
  return button;
}

/** @param {string} text */
function bySelection(text) {
  const before = document.activeElement;
  const area = element("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}
