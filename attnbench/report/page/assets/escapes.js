// @ts-check
// The table as text of other kinds; whatever is in a name or a reason is inert there too.

/** @type {Record<string, string>} */
const TEX = {
  "\\": "\\textbackslash{}",
  "{": "\\{",
  "}": "\\}",
  $: "\\$",
  "&": "\\&",
  "%": "\\%",
  "#": "\\#",
  _: "\\_",
  "^": "\\textasciicircum{}",
  "~": "\\textasciitilde{}",
  "<": "\\textless{}",
  ">": "\\textgreater{}",
  "|": "\\textbar{}",
  '"': "\\symbol{34}",
  "`": "{`}",
  "±": "$\\pm$",
  "×": "$\\times$",
  µ: "$\\mu$",
  "…": "\\dots{}",
  "−": "$-$",
  "–": "--",
  "·": "$\\cdot$",
};
const MARKS = /[\\`*{}[\]#|~$!]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])/g;

/**
 * A text that a spreadsheet would evaluate gets an apostrophe in front.
 * @param {string | number | null} value
 */
function csvField(value) {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@＝＋－＠]/.test(value) ? `'${value}` : value;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** @param {(string | number | null)[][]} rows */
function asCsv(rows) {
  return rows.map((row) => `${row.map(csvField).join(",")}\n`).join("");
}

/** @param {string} text */
function markdownField(text) {
  const plain = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  // the number sign of an entity is none of ours: these three have none
  return plain.replace(MARKS, (mark) => `\\${mark}`);
}

/** @param {string[][]} rows the first one is the head */
function asMarkdown(rows) {
  const lines = rows.map((row) => `| ${row.map(markdownField).join(" | ")} |\n`);
  const rule = `| ${rows[0].map((_, place) => (place ? "---:" : ":---")).join(" | ")} |\n`;
  return [lines[0], rule, ...lines.slice(1)].join("");
}

/** @param {string} text */
function texField(text) {
  const plain = [...text]
    .map((letter) => TEX[letter] ?? ((letter.codePointAt(0) ?? 0) < 128 ? letter : texNumber(letter)))
    .join("");
  // two hyphens in a row would become a dash
  return plain.replace(/-(?=-)/g, "-{}");
}

/**
 * A letter that LaTeX's Latin fonts lack.
 * @param {string} letter
 */
function texNumber(letter) {
  return `[U+${(letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}]`;
}

/** @param {string[][]} rows the first one is the head */
function asTex(rows) {
  // a row that starts with a bracket would be read as the option of what ends the row before
  const lines = rows.map(
    (row) =>
      `${row
        .map(texField)
        .join(" & ")
        .replace(/^(?=[[*])/, "{}")} \\\\`,
  );
  const columns = `l${"r".repeat(rows[0].length - 1)}`;
  const body = ["\\toprule", lines[0], "\\midrule", ...lines.slice(1), "\\bottomrule"];
  return `% needs \\usepackage{booktabs}\n\\begin{tabular}{@{}${columns}@{}}\n${body.join("\n")}\n\\end{tabular}\n`;
}
