// @ts-check
// The one file that knows the plotting library: a frame with axes, and the marks that the charts are made of.

/**
 * @typedef {{method: number, run: number, cell: number, x: number, y: number, z: string, y1?: number, y2?: number,
 *   x2?: number, words?: string, r?: number}} Datum
 */
/** @typedef {{title: string, scale: Scale, low: number, high: number, ticks: Map<number, string>}} Axis */
/**
 * @typedef {{width: number, height: number, x: Axis, y: Axis, right: number, marks: import("@observablehq/plot").Markish[],
 *   words: string}} Frame `right`: room beside the panel; `words`: for those who do not see it
 */

/** Lines of runs that lie over each other, the first as its method has it. */
const RUN_DASHES = ["", "7 3", "2 2.5", "9 3 2 3", "14 4", "4 2 1 2"];

/**
 * @param {Frame} frame
 * @returns {{svg: SVGSVGElement, at: (x: number, y: number) => [number, number]}} the picture, and where in it values are
 */
function framed(frame) {
  const letter = em() * 0.78;
  const { x, y } = frame;
  const made = Plot.plot({
    width: frame.width,
    height: frame.height,
    marginLeft: letter * leftOf(y),
    marginRight: frame.right + letter * 0.8,
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
      ...frame.marks,
    ],
  });
  const svg = /** @type {SVGSVGElement} */ (/** @type {unknown} */ (made));
  // names of marks are for programmers; to those who listen the picture has one name
  for (const mark of svg.querySelectorAll("g[aria-label]")) {
    mark.setAttribute("data-mark", mark.getAttribute("aria-label") ?? "");
    mark.removeAttribute("aria-label");
  }
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", frame.words);
  const [across, up] = [made.scale("x"), made.scale("y")];
  return { svg, at: (value, other) => [across?.apply(value) ?? 0, up?.apply(other) ?? 0] };
}

/**
 * Letters that the words of an axis take.
 * @param {Axis} axis
 */
function leftOf(axis) {
  return 1.6 + 0.56 * Math.max(0, ...[...axis.ticks.values()].map((words) => words.length));
}

/**
 * The outline of a method's marker around a point, as a piece of a path.
 * @param {Method} method
 * @param {[number, number]} point in pixels
 * @param {number} radius
 */
function outlined(method, [x, y], radius) {
  const r = radius.toFixed(1);
  if (!method.corners.length)
    return `M${(x - radius).toFixed(1)} ${y.toFixed(1)}a${r} ${r} 0 1 0 ${2 * Number(r)} 0a${r} ${r} 0 1 0 ${-2 * Number(r)} 0`;
  return `M${method.corners.map(([dx, dy]) => `${(x + dx * radius).toFixed(1)} ${(y + dy * radius).toFixed(1)}`).join("L")}Z`;
}

/** @param {Datum} datum */
function colorOf(datum) {
  return DATA.methods[datum.method].color;
}

/**
 * The dash of a line: that of its method, or of its run where several lie over each other.
 * @param {number} method
 * @param {number} run
 * @param {boolean} over
 */
function dashOf(method, run, over) {
  return over ? RUN_DASHES[run % RUN_DASHES.length] : DATA.methods[method].dash;
}

/**
 * Few marks with many points draw faster than a mark for each method.
 * @param {Datum[]} data
 * @param {(datum: Datum) => string} key
 * @returns {Datum[][]}
 */
function alike(data, key) {
  /** @type {Map<string, Datum[]>} */
  const found = new Map();
  for (const datum of data) {
    const members = found.get(key(datum));
    if (members) members.push(datum);
    else found.set(key(datum), [datum]);
  }
  return [...found.values()];
}

/**
 * A line through the points of each series.
 * @param {Datum[]} data
 * @param {boolean} over whether runs lie over each other
 */
function strokes(data, over) {
  return alike(data, (datum) => dashOf(datum.method, datum.run, over)).map((members) =>
    Plot.line(members, {
      x: "x",
      y: "y",
      z: "z",
      stroke: colorOf,
      strokeWidth: em() * 0.1,
      strokeDasharray: dashOf(members[0].method, members[0].run, over) || undefined,
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
    const paths = alike(data, (datum) => datum.z).map((members) => drawing("path", path(members, at)));
    return /** @type {SVGElement} */ (drawing("g", { "data-mark": name, ...look }, ...paths));
  };
}

/**
 * Markers, filled or hollow as their methods are.
 * @param {Datum[]} data
 * @param {number} [dx] to the right, in pixels
 */
function dots(data, dx = 0) {
  const radius = em() * 0.21;
  return bySeries("dot", data, { "stroke-width": em() * 0.085, transform: `translate(${dx},0)` }, (members, at) => {
    const method = DATA.methods[members[0].method];
    const d = members.map((datum) => outlined(method, at(datum.x, datum.y), datum.r ?? radius)).join("");
    return { d, stroke: method.color, fill: method.filled ? method.color : "var(--back)" };
  });
}

/**
 * The ranges of points: shaded between them, and upright at each.
 * @param {Datum[]} data
 */
function ranges(data) {
  const ranged = data.filter((datum) => datum.y1 !== undefined);
  return [
    Plot.areaY(ranged, { x: "x", y1: "y1", y2: "y2", z: "z", fill: colorOf, fillOpacity: 0.14 }),
    bySeries("range", ranged, { "stroke-width": 1 }, (members, at) => ({
      d: members.map((datum) => `M${at(datum.x, datum.y1 ?? 0)}V${at(datum.x, datum.y2 ?? 0)[1]}`).join(""),
      stroke: colorOf(members[0]),
    })),
  ];
}

/**
 * Failures; the later ones of a kind are faint.
 * @param {Datum[]} data
 * @param {boolean} faint
 */
function crosses(data, faint) {
  const half = Number((em() * (faint ? 0.2 : 0.3)).toFixed(1));
  const shape = `m${-half} ${-half}l${2 * half} ${2 * half}m0 ${-2 * half}l${-2 * half} ${2 * half}`;
  return bySeries("cross", data, { "stroke-width": em() * 0.115, fill: "none", opacity: faint ? 0.4 : 1 }, (members, at) => ({
    d: members.map((datum) => `M${at(datum.x, datum.y)}${shape}`).join(""),
    stroke: colorOf(members[0]),
  }));
}

/**
 * Dotted, from a line's last point to the failure behind it; or a label's leader.
 * @param {Datum[]} data with x2 and y2
 * @param {{dash?: string, opacity: number}} look
 */
function links(data, look) {
  return Plot.link(data, {
    x1: "x",
    y1: "y",
    x2: "x2",
    y2: "y2",
    stroke: colorOf,
    strokeWidth: 1,
    strokeDasharray: look.dash,
    strokeOpacity: look.opacity,
  });
}

/**
 * Words beside a point, readable over lines.
 * @param {Datum[]} data
 * @param {number} dx
 * @param {number} [dy]
 */
function labels(data, dx, dy = 0) {
  return Plot.text(data, {
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
}

/**
 * Straight pieces without a method: a roof, a front.
 * @param {[number, number][]} points
 * @param {{dash?: string, steps?: boolean}} look
 */
function outline(points, look) {
  return Plot.line(points, {
    stroke: "currentColor",
    strokeWidth: 1.3,
    strokeOpacity: 0.7,
    strokeDasharray: look.dash,
    curve: look.steps ? "step-after" : "linear",
  });
}

/**
 * Words where a chart would be.
 * @param {string} text
 */
function empty(text) {
  return element("p", { class: "empty" }, text);
}

/**
 * Labels cut in the middle, for names differ at both ends.
 * @param {string} text
 * @param {number} letters
 */
function cut(text, letters) {
  if (text.length <= letters) return text;
  const tail = Math.floor((letters - 1) / 2);
  return `${text.slice(0, letters - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/**
 * Charts side by side where there is room.
 * @param {number} count
 * @param {number} width
 */
function columnsOf(count, width) {
  return count > 1 && width > 48 * em() ? 2 : 1;
}

/**
 * Of one of them, in pixels.
 * @param {number} count
 * @param {number} width
 */
function panelWidth(count, width) {
  const columns = columnsOf(count, width);
  return Math.floor((width - (columns - 1) * em()) / columns);
}
