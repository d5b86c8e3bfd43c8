// @ts-check
// The one file that knows the plotting library: axes, marks, and what a point says when it is pointed at or reached by keys.

/** Lines of runs that lie over each other, the first as its method has it. */
const RUN_DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "14 4", "4 2 1 2"];
const WIDEST_LABEL = 26;
const NEAR = 48;
/** Ticks of a linear axis, about: seven at most. */
const TICKS = 4;
/** Columns that are told by the head of the tip, or by the choice of what is shown. */
const UNTOLD = ["method", "workload", "mask", "conditions", "run"];

/** A chart in its place, with its caption; it takes the focus, and says how it is walked through. @param {Chart} chart */
function charted({ caption, words, width, height, right, x, y, marks, data }) {
  const letter = em() * 0.78;
  const made = Plot.plot({
    width,
    height,
    marginLeft: letter * (1.6 + 0.56 * Math.max(0, ...[...y.ticks.values()].map((tick) => tick.length))),
    marginRight: (right ?? 0) + letter * 0.8,
    marginTop: letter * 0.9,
    marginBottom: letter * 3.2,
    style: { fontSize: `${letter}px`, overflow: "visible" },
    x: { type: x.scale, domain: [x.low, x.high] },
    y: { type: y.scale, domain: [y.low, y.high] },
    color: { type: "identity" },
    marks: [
      Plot.gridY([...y.ticks.keys()], { strokeOpacity: 0.13 }),
      Plot.gridX([...x.ticks.keys()], { strokeOpacity: 0.07 }),
      Plot.axisY([...y.ticks.keys()], {
        text: (/** @type {number} */ each) => y.ticks.get(each) ?? "",
        tickSize: 0,
        label: null,
      }),
      Plot.axisX([...x.ticks.keys()], {
        text: (/** @type {number} */ each) => x.ticks.get(each) ?? "",
        tickSize: 4,
        label: x.title,
        labelAnchor: "center",
        labelArrow: "none",
        labelOffset: letter * 3,
      }),
      ...marks,
    ],
  });
  const svg = /** @type {SVGSVGElement} */ (/** @type {unknown} */ (made));
  // names of marks are for programmers; to those who listen the picture has one name
  for (const mark of svg.querySelectorAll("g[aria-label]")) {
    mark.setAttribute("data-mark", mark.getAttribute("aria-label") ?? "");
    mark.removeAttribute("aria-label");
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", words);
  const about = `${words} Arrow keys go from point to point; the table of all cells has the same numbers.`;
  const box = element(
    "div",
    { class: "chart", tabindex: 0, role: "group", "aria-roledescription": "chart", "aria-label": about },
    svg,
  );
  const [across, up] = [made.scale("x"), made.scale("y")];
  const targets = data.map((each) => ({ ...each, x: across?.apply(each.x) ?? 0, y: up?.apply(each.y) ?? 0 }));
  attachTips(box, svg, targets);
  return element("figure", {}, element("figcaption", {}, caption), box);
}

/** Charts side by side where there is room. @param {number} count @param {number} width */
const columnsOf = (count, width) => (count > 1 && width > 48 * em() ? 2 : 1);
/** The width of one of them, in pixels. @param {number} count @param {number} width */
const panelWidth = (count, width) => Math.floor((width - (columnsOf(count, width) - 1) * em()) / columnsOf(count, width));
/** Words where a chart would be. @param {string} text */
const empty = (text) => element("p", { class: "empty" }, text);

// axes

/** Values and words along an axis that is linear from 0, or logarithmic. @param {number} low @param {number} high @param {string} unit @param {Scale} scale */
function valueTicks(low, high, unit, scale) {
  if (scale === "log") return new Map(logTicks(low, high, unit === "B" ? 2 : 10).map((value) => [value, said(value, unit)]));
  const known = DATA.units[unit];
  const size = known.find((each) => high >= each[0]) ?? known[known.length - 1];
  const values = d3.ticks(low / size[0], high / size[0], TICKS).map((value) => value * size[0]);
  return new Map(values.map((value) => [value, said(value, unit, size)]));
}

/** Powers of the base, at most seven; of ten also 2 and 5 of each where there are fewer than three. @param {number} low @param {number} high @param {number} base */
function logTicks(low, high, base) {
  const [first, last] = [Math.floor(Math.log(low) / Math.log(base)), Math.ceil(Math.log(high) / Math.log(base))];
  const exponents = Array.from({ length: last - first + 1 }, (_, place) => first + place);
  /** @param {number} value */
  const inside = (value) => low <= value && value <= high;
  const powers = exponents.filter((each) => inside(base ** each));
  if (base === 10 && powers.length < 3)
    return exponents.flatMap((each) => [1, 2, 5].map((lead) => lead * 10 ** each)).filter(inside);
  const step = Math.max(1, Math.ceil(powers.length / 7));
  return powers.filter((each) => each % step === 0).map((each) => base ** each);
}

/** Of values along an axis those whose words have room. @param {number[]} values @param {(value: number) => number} place in pixels @param {number} space in pixels */
function roomy(values, place, space) {
  /** @type {number[]} */
  const chosen = [];
  for (const value of values)
    if (!chosen.length || place(value) - place(chosen[chosen.length - 1]) >= space) chosen.push(value);
  return chosen;
}

/** Pixels along an axis by value, or shares of it. @param {Scale} scale @param {[number, number]} ends @param {number} length */
const along = (scale, ends, length) => (scale === "log" ? d3.scaleLog(ends, [0, length]) : d3.scaleLinear(ends, [0, length]));

/** A logarithmic axis around values, with words where there is room for them. @param {number[]} values @param {string} unit @param {string} title @param {number} [width] in pixels, of an axis from left to right @returns {Axis} */
function axisAround(values, unit, title, width) {
  const [low, high] = [Math.min(...values) / 1.6, Math.max(...values) * 1.6];
  const ticks = valueTicks(low, high, unit, "log");
  const kept = width ? roomy([...ticks.keys()], along("log", [low, high], width), 4.2 * em()) : [...ticks.keys()];
  return { title, scale: "log", low, high, ticks: new Map(kept.map((value) => [value, ticks.get(value) ?? ""])) };
}

// marks

/** @param {Datum} datum */
const colorOf = (datum) => DATA.methods[datum.method].color;
/** The dash of a line: that of its method, or of its run where several lie over each other. @param {Datum} datum @param {boolean} over */
const dashOf = (datum, over) => (over ? RUN_DASHES[datum.run % RUN_DASHES.length] : DATA.methods[datum.method].dash);

/** What is drawn in one stroke. @param {Datum} datum */
const pieceOf = ({ z, piece }) => `${z}/${piece ?? 0}`;

/** A line through the points of each series; few marks with many points draw faster than a mark for each method. @param {Datum[]} data @param {boolean} over whether runs lie over each other */
function strokes(data, over) {
  return [...d3.group(data, (datum) => dashOf(datum, over))].map(([dash, members]) =>
    Plot.line(members, {
      x: "x",
      y: "y",
      z: pieceOf,
      stroke: colorOf,
      strokeWidth: em() * 0.1,
      strokeDasharray: dash || undefined,
    }),
  );
}

/**
 * One path for all that is drawn of a series: an element for each of thousands of points would be slow.
 * @param {string} name
 * @param {Datum[]} data
 * @param {Record<string, string | number>} look of all paths
 * @param {(members: Datum[], at: (x: number, y: number) => [number, number]) => Record<string, string | number>} path
 * @returns {import("@observablehq/plot").RenderFunction}
 */
function bySeries(name, data, look, path) {
  return (_, { x, y }) => {
    /** @type {(across: number, up: number) => [number, number]} */
    const at = (across, up) => [x?.(across) ?? 0, y?.(up) ?? 0];
    const paths = [...d3.group(data, (datum) => datum.z).values()].map((members) => drawing("path", path(members, at)));
    return /** @type {SVGElement} */ (drawing("g", { "data-mark": name, ...look }, ...paths));
  };
}

/** The outline of a method's marker around a point, as a piece of a path. @param {Method} method @param {[number, number]} point @param {number} radius */
function outlined({ corners }, [x, y], radius) {
  const r = Number(radius.toFixed(1));
  if (!corners.length) return `M${(x - r).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
  return `M${corners.map(([dx, dy]) => `${(x + dx * radius).toFixed(1)} ${(y + dy * radius).toFixed(1)}`).join("L")}Z`;
}

/** Markers, filled or hollow as their methods are. @param {Datum[]} data @param {number} [dx] to the right, in pixels */
function dots(data, dx = 0) {
  const radius = em() * 0.21;
  return bySeries("dot", data, { "stroke-width": em() * 0.085, transform: `translate(${dx},0)` }, (members, at) => {
    const method = DATA.methods[members[0].method];
    const d = members.map((datum) => outlined(method, at(datum.x, datum.y), datum.r ?? radius)).join("");
    return { d, stroke: method.color, fill: method.filled ? method.color : "var(--back)" };
  });
}

/** The ranges of points: shaded between them, and upright at each. @param {Datum[]} data */
function ranges(data) {
  const ranged = data.filter((datum) => datum.y1 !== undefined);
  return [
    Plot.areaY(ranged, { x: "x", y1: "y1", y2: "y2", z: pieceOf, fill: colorOf, fillOpacity: 0.14 }),
    bySeries("range", ranged, { "stroke-width": 1 }, (members, at) => ({
      d: members.map((datum) => `M${at(datum.x, datum.y1 ?? 0)}V${at(datum.x, datum.y2 ?? 0)[1]}`).join(""),
      stroke: colorOf(members[0]),
    })),
  ];
}

/** Of the cells that failed the first of each kind; or the later ones, which are faint. @param {(Datum & {first: boolean})[]} failed @param {boolean} first */
function crosses(failed, first) {
  const own = failed.filter((each) => each.first === first);
  const half = Number((em() * (first ? 0.24 : 0.16)).toFixed(1));
  const shape = `m${-half} ${-half}l${2 * half} ${2 * half}m0 ${-2 * half}l${-2 * half} ${2 * half}`;
  return bySeries("cross", own, { "stroke-width": em() * 0.11, fill: "none", opacity: first ? 1 : 0.45 }, (members, at) => ({
    d: members.map((datum) => `M${at(datum.x, datum.y)}${shape}`).join(""),
    stroke: colorOf(members[0]),
  }));
}

/** Words beside a point, readable over lines. @param {Datum[]} data @param {number} dx @param {number} [dy] */
const labels = (data, dx, dy = 0) =>
  Plot.text(data, {
    x: "x",
    y: "y",
    text: "words",
    textAnchor: "start",
    dx,
    dy,
    fill: "currentColor",
    stroke: "var(--back)",
    strokeWidth: 4,
  });
/** Straight pieces without a method: a roof; or steps as far as the axes reach: a front. @param {[number, number][]} points @param {boolean} [steps] */
const outline = (points, steps = false) =>
  Plot.line(points, {
    stroke: "currentColor",
    strokeWidth: 1.3,
    strokeOpacity: 0.7,
    curve: steps ? "step-after" : "linear",
    clip: steps,
  });

/** A name cut in the middle, for names differ at both ends. @param {string} text @param {number} letters */
function cut(text, letters) {
  if (text.length <= letters) return text;
  const tail = Math.floor((letters - 1) / 2);
  return `${text.slice(0, letters - 1 - tail)}…${text.slice(text.length - tail)}`;
}

// tips

/** What is told of a cell: of the point itself, then what the table says under its heads. @param {Pick<Datum, "cell" | "said">} target @returns {[string, string][]} */
function tipRows({ cell, said: own }) {
  const rows = KEYS.map(
    (key, place) => /** @type {[string, string]} */ ([TITLES[place], UNTOLD.includes(key) ? "" : entry(cell, key)]),
  );
  return [...(own ? [own] : []), ...rows.filter(([, text]) => text)];
}

/** Fill the tip and place it beside a point of the window. @param {Pick<Datum, "cell" | "said">} target @param {number} x @param {number} y */
function showTip(target, x, y) {
  const tip = part("tip");
  const rows = tipRows(target).map(([key, text]) =>
    element("tr", {}, element("th", { scope: "row" }, key), element("td", {}, text)),
  );
  tip.replaceChildren(element("b", {}, nameOf(target.cell)), element("table", {}, element("tbody", {}, ...rows)));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  tip.style.left = `${Math.max(4, Math.min(left, innerWidth - width - 4))}px`;
  tip.style.top = `${Math.max(4, Math.min(y - height / 2, innerHeight - height - 4))}px`;
}

function hideTip() {
  part("tip").hidden = true;
}

/** Pointing at a chart, and walking through it by keys. @param {HTMLElement} box takes the focus @param {SVGSVGElement} svg @param {Datum[]} targets in pixels */
function attachTips(box, svg, targets) {
  const cursor = drawing("circle", { class: "cursor", r: em() * 0.4, visibility: "hidden" });
  svg.append(cursor);
  let current = -1;
  /** @param {number} place */
  const go = (place) => {
    current = place;
    const target = targets[place];
    cursor.setAttribute("visibility", target ? "visible" : "hidden");
    if (!target) return hideTip();
    cursor.setAttribute("cx", String(target.x));
    cursor.setAttribute("cy", String(target.y));
    // the picture may be drawn smaller than it was made
    const frame = svg.getBoundingClientRect();
    const scale = frame.width / svg.viewBox.baseVal.width;
    showTip(target, frame.left + target.x * scale, frame.top + target.y * scale);
  };
  /** @param {PointerEvent} event */
  const point = (event) => {
    const frame = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / frame.width;
    const [x, y] = [(event.clientX - frame.left) * scale, (event.clientY - frame.top) * scale];
    const squares = targets.map((target) => (target.x - x) ** 2 + (target.y - y) ** 2);
    const least = Math.min(...squares);
    go(least < NEAR * NEAR ? squares.indexOf(least) : -1);
  };
  svg.addEventListener("pointermove", point);
  svg.addEventListener("pointerdown", point);
  svg.addEventListener("pointerleave", () => go(-1));
  box.addEventListener("blur", () => go(-1));
  box.addEventListener("keydown", (event) => {
    const next = steered(targets, current, event.key);
    if (next === null) return;
    event.preventDefault();
    go(next);
    const target = targets[next];
    if (target) say([nameOf(target.cell), ...tipRows(target).map(([key, text]) => `${key}: ${text}`)].join("; "));
  });
}

/** Left and right along a series, up and down among the points over each other; Escape leaves. @param {Datum[]} targets @param {number} current @param {string} key @returns {number | null} null for a key that does nothing here */
function steered(targets, current, key) {
  if (key === "Escape") return current < 0 ? null : -1;
  if (!["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End"].includes(key) || !targets.length) return null;
  const here = targets[current];
  if (!here) return 0;
  const places = [...targets.keys()];
  const upright = key === "ArrowUp" || key === "ArrowDown";
  const row = upright
    ? places.filter((place) => Math.abs(targets[place].x - here.x) < 1).sort((a, b) => targets[b].y - targets[a].y)
    : places.filter((place) => targets[place].z === here.z).sort((a, b) => targets[a].x - targets[b].x);
  if (key === "Home" || key === "End") return row[key === "Home" ? 0 : row.length - 1];
  return row[row.indexOf(current) + (key === "ArrowUp" || key === "ArrowRight" ? 1 : -1)] ?? current;
}
