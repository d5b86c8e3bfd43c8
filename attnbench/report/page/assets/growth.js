// @ts-check
// Curves: a quantity over length, or what is learnt over updates or seconds; a panel for each run, or all runs in one.

/** Shares of the height of a panel, at most: a row of crosses, and all rows. */
const [CROSS_ROW, CROSS_ROWS] = [0.032, 0.26];
/** Markers on a curve of training, about. */
const MARKED = 6;
/** The look of the level of who knows nothing. */
const LEVEL = { strokeDasharray: "2 4", strokeOpacity: 0.7, strokeWidth: 1.3 };

/** The cells of the group that were trained. */
const learners = () => DATA.learning.filter((each) => DATA.cells.group[each.cell] === view.group);
/** Whether the curves are those of training, and not over length. */
const learns = () => view.over !== "N" && learners().length > 0;

/** What can be shown of a group that was trained, and what is. */
function learnable() {
  const all = /** @type {View["curve"][]} */ (Object.keys(WORDS.curve));
  const scores = all.filter((score) => learners().some((each) => each[score]));
  const lengths = rising(learners().map((each) => DATA.cells.N[each.cell]));
  const N = lengths.includes(view.at) ? view.at : lengths[lengths.length - 1];
  return { scores, lengths, N, score: scores.includes(view.curve) ? view.curve : scores[0] };
}

/** @param {number} width of the place for charts @returns {HTMLElement[]} */
function growthCharts(width) {
  const runs = runsShown();
  const panels = view.runs === "side" ? runs.map((run) => [run]) : [runs];
  const curves = learns() ? learntCurves() : lengthCurves();
  if (!curves) return [empty("No cell of this part has a number; what failed, and why, is told below.")];
  const all = curves.lines(runs);
  const span = spanOf(all, curves);
  if (!span) return [empty(all.length ? curves.nothing : "No method is chosen.")];
  return panels.map((members) => growthPanel(curves, members, span, panelWidth(panels.length, width)));
}

/** A quantity over length. @returns {Curves | null} */
function lengthCurves() {
  const quantity = quantityShown();
  if (!quantity) return null;
  const title = quantity.titles[view.group];
  return {
    title,
    unit: quantity.unit,
    scale: view.y,
    level: null,
    marked: Number.POSITIVE_INFINITY,
    nothing: `None of the chosen methods has a number ${view.y === "log" ? "above 0 here; on a linear axis 0 has a place" : "here"}.`,
    about: `${title} against length`,
    lines: (runs) =>
      linesAmong(runs, (cells) => {
        // 0 has no place on a logarithmic axis, and the line breaks there
        let piece = 0;
        return cells.flatMap((cell) => {
          const [x, y, low, high] = [DATA.cells.N[cell], quantity.value[cell], quantity.low[cell], quantity.high[cell]];
          const placed = y !== null && (view.y === "linear" || y > 0);
          if (y !== null && !placed) piece += 1;
          return placed ? [{ cell, x, y, piece, ...ranged(low, high, view.y) }] : [];
        });
      }),
    across: (lines, width) => {
      const lengths = rising(
        lines.flatMap((line) => [...line.points.map((each) => each.x), ...line.failed.map((cell) => DATA.cells.N[cell])]),
      );
      const [first, last] = [lengths[0], lengths[lengths.length - 1]];
      const pad = (last / first) ** 0.03 * (first === last ? 1.5 : 1);
      const [low, high] = view.x === "log" ? [first / pad, last * pad] : [0, last * 1.03];
      return {
        title: "N (tokens)",
        scale: view.x,
        low,
        high,
        ticks: new Map(roomy(lengths, along(view.x, [low, high], 0.7 * width), 2.6 * em()).map((N) => [N, lengthWords(N)])),
      };
    },
  };
}

/** The loss, the accuracy or the errors of sequences that are never trained on. @returns {Curves} */
function learntCurves() {
  const { N, score, lengths } = learnable();
  const timed = view.over === "seconds";
  const scale = score === "accuracy" ? "linear" : view.y;
  const title = DATA.learnt[score ?? "loss"];
  const unit = score === "accuracy" || score === "error_rate" ? "share" : "";
  const axis = timed ? "time of training" : "updates";
  const own = learners().filter((each) => DATA.cells.N[each.cell] === N);
  const floor = scale === "log" ? 0 : -1;
  return {
    title: lengths.length > 1 ? `${title}: N = ${lengthWords(N)}` : title,
    unit,
    scale,
    level: own.flatMap((each) => each[score]?.chance || [])[0] ?? null,
    marked: MARKED,
    nothing: "None of the chosen methods was trained to its end; what failed, and why, is told below.",
    about: `${title} over ${axis}, N = ${N}`,
    lines: (runs) =>
      linesAmong(runs, (cells) => {
        const learner = own.find((each) => cells.includes(each.cell));
        const found = learner?.[score];
        if (!learner || !found) return [];
        return found.value.flatMap((y, place) => {
          const x = (timed ? found.seconds : found.update)[place];
          if (x === null || y === null || y <= floor) return [];
          const when = timed ? said(x, "s") : `${x.toLocaleString("en")} updates`;
          /** @type {[string, string]} */
          const words = [`after ${when}`, `${title} ${said(Number(y.toPrecision(3)), unit)}`];
          return [{ cell: learner.cell, x, y, said: words, ...ranged(found.low[place], found.high[place], scale) }];
        });
      })
        .filter((line) => line.points.length)
        .map((line) => ({ ...line, failed: [] })),
    across: (lines) => {
      const last = Math.max(...lines.flatMap((line) => line.points.map((each) => each.x)), 1e-9);
      const ticks = timed
        ? valueTicks(0, last, "s", "linear")
        : new Map(d3.ticks(0, last, TICKS).map((value) => [value, value.toLocaleString("en")]));
      return { title: axis, scale: "linear", low: 0, high: last * 1.02, ticks };
    },
  };
}

/** The ends of a range of more than one number; on a logarithmic axis 0 has no place. @param {number | null | undefined} low @param {number | null | undefined} high @param {Scale} scale */
function ranged(low, high, scale) {
  return low == null || high == null || low === high || (scale === "log" && low <= 0) ? {} : { y1: low, y2: high };
}

/** A line for each method and run that has cells. @param {number[]} runs @param {(cells: number[]) => Omit<Datum, "method" | "run" | "z">[]} points @returns {Line[]} */
function linesAmong(runs, points) {
  return runs.flatMap((run) =>
    visible().flatMap((method) => {
      const z = `${view.group}/${run}/${method}`;
      const cells = SERIES.get(z);
      if (!cells) return [];
      return [
        {
          method,
          run,
          z,
          points: points(cells).map((each) => ({ ...each, method, run, z })),
          failed: cells.filter((cell) => statusOf(cell) !== "ok"),
        },
      ];
    }),
  );
}

/** How far the axis of values reaches, with room at the top for what failed; null where there is nothing. @param {Line[]} lines @param {Curves} curves @returns {Span | null} */
function spanOf(lines, { scale, level }) {
  const points = lines.flatMap((line) => line.points);
  if (!points.length) return null;
  const levels = level === null ? [] : [level];
  const lows = [...points.map((each) => each.y1 ?? each.y), ...levels];
  const highs = [...points.map((each) => each.y2 ?? each.y), ...levels];
  const rows = lines.filter((line) => line.failed.length).length;
  const row = Math.min(CROSS_ROW, CROSS_ROWS / rows);
  const roof = rows ? 1 - row * (rows + 0.4) : 1;
  const [low, top] = [scale === "linear" ? 0 : Math.min(...lows) / 1.4, Math.max(...highs)];
  const high = scale === "linear" ? (top * 1.05 || 1) / roof : low * Math.max((top * 1.4) / low, 4) ** (1 / roof);
  return { low, high, scale, roof, row, shares: along(scale, [low, high], 1) };
}

/** @param {Curves} curves @param {number[]} runs @param {Span} span @param {number} width @returns {HTMLElement} */
function growthPanel(curves, runs, span, width) {
  const group = DATA.groups[view.group];
  const lines = curves.lines(runs);
  if (!lines.some((line) => line.points.length || line.failed.length))
    return empty(`${DATA.runs[runs[0]].name}: ${curves.nothing}`);
  const over = runs.length > 1;
  const height = Math.max(300, Math.min(0.62 * width, em() * 32));
  const drawn = lines.filter((line) => line.points.length);
  // names stand beside the panel where it is wide and they are few
  const narrow = width < 34 * em() || drawn.length * em() > height * 0.9;
  const beside = narrow
    ? 0
    : Math.min(WIDEST_LABEL, Math.max(0, ...drawn.map((line) => DATA.methods[line.method].name.length)));
  const points = lines.flatMap((line) => line.points);
  const marked = drawn.flatMap((line, number) => {
    const step = Math.max(1, Math.floor(line.points.length / curves.marked));
    return line.points.filter((_, place) => place % step === number % step);
  });
  const x = curves.across(lines, width);
  const failed = failures(lines, span);
  const roof = span.shares.invert(span.roof);
  const [shade, uprights] = ranges(points);
  const name = over ? "" : runWords(runs[0] ?? 0);
  const where = learns() ? "" : `, ${DATA.workloads[group.workload]}, ${group.mask}, ${group.conditions}`;
  return charted({
    caption: `${curves.title}${name}`,
    words: `${curves.about}: ${new Set(lines.map((line) => line.method)).size} methods${where}${name}.`,
    width,
    height,
    right: beside ? (1.6 + beside * 0.45) * em() : 0,
    x,
    y: {
      title: curves.title,
      scale: span.scale,
      low: span.low,
      high: span.high,
      ticks: valueTicks(span.low, roof, curves.unit, span.scale),
    },
    // uprights at all points of a curve of training would hide it
    marks: [
      shade,
      ...(learns() ? [] : [uprights]),
      ...(curves.level === null ? [] : [Plot.ruleY([curves.level], LEVEL)]),
      ...(failed.length ? [Plot.ruleY([roof], { strokeDasharray: "1 3", strokeOpacity: 0.5 })] : []),
      ...strokes(points, over),
      crosses(failed, false),
      dots(marked),
      crosses(failed, true),
      ...(beside ? names(drawn, span, x, beside) : []),
    ],
    data: [...points, ...failed],
  });
}

/** What failed is at the top, in a row for each method, and never at a height that nobody measured; the first of each status stands out. @param {Line[]} lines @param {Span} span */
function failures(lines, span) {
  return lines
    .filter((line) => line.failed.length)
    .flatMap(({ method, run, z, failed }, number) => {
      const y = span.shares.invert(1 - span.row * (number + 0.5));
      return failed.map((cell, place) => {
        const first = failed.findIndex((each) => statusOf(each) === statusOf(cell)) === place;
        return { method, run, z, cell, x: DATA.cells.N[cell], y, first };
      });
    });
}

/** Names beside the ends of lines, moved apart, with their markers. @param {Line[]} drawn @param {Span} span @param {Axis} x @param {number} letters */
function names(drawn, span, x, letters) {
  // once for each method, where runs lie over each other
  const own = drawn.filter((line, place) => drawn.findIndex((each) => each.method === line.method) === place);
  const ends = own.map((line) => line.points[line.points.length - 1]);
  const places = apart(
    ends.map((end) => Math.min(span.shares(end.y), 1)),
    Math.min(0.06, 0.95 / own.length),
  );
  const words = ends.map((end, place) => ({
    ...end,
    x: x.high,
    y: span.shares.invert(places[place]),
    words: cut(DATA.methods[end.method].name, letters),
  }));
  return [dots(words, em() * 0.7), labels(words, em() * 1.25)];
}

/** Shares moved apart, each as far as its neighbour. @param {number[]} shares @param {number} height of one */
function apart(shares, height) {
  const moved = [...shares];
  const order = [...shares.keys()].sort((a, b) => shares[a] - shares[b]);
  for (let round = 0; round < 100; round += 1) {
    order.slice(1).forEach((upper, place) => {
      const overlap = height - (moved[upper] - moved[order[place]]);
      if (overlap > 0) [moved[upper], moved[order[place]]] = [moved[upper] + overlap / 2, moved[order[place]] - overlap / 2];
    });
    order.forEach((each) => (moved[each] = Math.max(height / 2, Math.min(moved[each], 1 - height / 2))));
  }
  return moved;
}
