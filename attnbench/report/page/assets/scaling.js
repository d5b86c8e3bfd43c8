// @ts-check
// Curves: one quantity over length, a panel for each run or all runs in one.

const WIDEST_LABEL = 26;

/**
 * @param {View} view
 * @param {number} width of the place for charts
 * @returns {HTMLElement[]}
 */
function scalingCharts(view, width) {
  const quantity = quantityShown(view);
  if (!quantity) return [empty("No cell of this part has a number; what failed, and why, stands below.")];
  const runs = runsOf(view);
  const panels = view.runs === "side" ? runs.map((run) => [run]) : [runs];
  const all = linesOf(quantity, view.group, runs, visible(view), view.y);
  const span = spanOf(all, view.y);
  if (!span) return [empty(all.length ? "None of the chosen methods has a number here." : "No method is chosen.")];
  return panels.map((members) => scalingPanel(view, quantity, members, span, panelWidth(panels.length, width)));
}

/**
 * @param {View} view
 * @param {Quantity} quantity
 * @param {number[]} runs
 * @param {Span} span
 * @param {number} width
 */
function scalingPanel(view, quantity, runs, span, width) {
  const group = DATA.groups[view.group];
  const lines = linesOf(quantity, view.group, runs, visible(view), view.y);
  const over = runs.length > 1;
  const height = Math.max(300, Math.min(0.62 * width, em() * 32));
  const beside = besidePanel(lines, width, height);
  const title = titleOf(quantity, group);
  const name = DATA.runs.length > 1 && !over ? DATA.runs[runs[0]].name : "";
  const { svg, at } = framed({
    width,
    height,
    right: beside ? (1.6 + beside * 0.45) * em() : 0,
    x: lengthAxis(lines, view.x, width),
    y: {
      title,
      scale: span.scale,
      low: span.low,
      high: span.high,
      ticks: valueTicks(Math.max(span.low, 1e-30), valueAt(span, span.roof), quantity.unit, span.scale),
    },
    marks: scalingMarks(lines, span, over, beside),
    words: `${title} against length: ${lines.length} methods, ${group.workload}, ${group.mask}, ${group.conditions}${name ? `, ${name}` : ""}.`,
  });
  return holder([title, name].filter(Boolean).join(": "), svg, scalingTargets(lines, span, at));
}

/**
 * Letters that there is room for beside the panel; 0 where it is narrow or the labels are too many.
 * @param {Line[]} lines
 * @param {number} width
 * @param {number} height
 */
function besidePanel(lines, width, height) {
  const drawn = lines.filter((line) => line.points.length);
  if (width < 34 * em() || drawn.length * em() > height * 0.9) return 0;
  return Math.min(WIDEST_LABEL, Math.max(0, ...drawn.map((line) => DATA.methods[line.method].name.length)));
}

/**
 * @param {Line[]} lines
 * @param {Scale} scale
 * @param {number} width
 * @returns {Axis}
 */
function lengthAxis(lines, scale, width) {
  const lengths = [...new Set(lines.flatMap((line) => [...line.points, ...line.failures].map((each) => each.N)))].sort(
    (a, b) => a - b,
  );
  const [first, last] = [lengths[0], lengths[lengths.length - 1]];
  const pad = (last / first) ** 0.03 * (first === last ? 1.5 : 1);
  const [low, high] = scale === "log" ? [first / pad, last * pad] : [0, last * 1.03];
  /** @param {number} N */
  const place = (N) => 0.7 * width * (scale === "log" ? Math.log(N / low) / Math.log(high / low) : N / high);
  const ticks = new Map(roomy(lengths, place, 2.6 * em()).map((N) => [N, lengthWords(N)]));
  return { title: "N (tokens)", scale, low, high, ticks };
}

/**
 * @param {Line[]} lines
 * @param {Span} span
 * @param {boolean} over
 * @param {number} beside
 */
function scalingMarks(lines, span, over, beside) {
  const points = lines.flatMap((line) => line.points.map((point) => pointDatum(line, point)));
  const failures = lines.flatMap((line) =>
    line.failures.map((failure) => ({ first: failure.first, ...failureDatum(lines, line, failure, span) })),
  );
  return [
    ...ranges(points),
    links(failedLinks(lines, span), { dash: "1 3", opacity: 0.8 }),
    ...strokes(points, over),
    crosses(
      failures.filter((each) => !each.first),
      true,
    ),
    dots(points),
    crosses(
      failures.filter((each) => each.first),
      false,
    ),
    ...(beside ? scalingLabels(lines, span, beside) : []),
  ];
}

/**
 * @param {Line} line
 * @param {Point} point
 * @returns {Datum}
 */
function pointDatum(line, point) {
  const range = point.low !== null && point.high !== null ? { y1: point.low, y2: point.high } : {};
  return { method: line.method, run: line.run, cell: point.cell, z: line.key, x: point.N, y: point.value, ...range };
}

/**
 * On the line drawn further, but below the rows; or in a row at the top for a method that never ran.
 * @param {Line[]} lines
 * @param {Line} line
 * @param {Failure} failure
 * @param {Span} span
 * @returns {Datum}
 */
function failureDatum(lines, line, failure, span) {
  const never = lines.filter((each) => !each.points.length);
  const row = 1 - ROW * (never.indexOf(line) + 0.6);
  const share =
    failure.value === null || !line.points.length
      ? Math.max(row, 0.5)
      : Math.min(shareOf(span, failure.value), span.roof - 0.02);
  return { method: line.method, run: line.run, cell: failure.cell, z: line.key, x: failure.N, y: valueAt(span, share) };
}

/**
 * From the last point of a line to the failures behind it.
 * @param {Line[]} lines
 * @param {Span} span
 * @returns {Datum[]}
 */
function failedLinks(lines, span) {
  return lines.flatMap((line) => {
    const last = line.points[line.points.length - 1];
    const behind = last ? line.failures.filter((failure) => failure.first && failure.N > last.N) : [];
    return behind.map((failure) => {
      const end = failureDatum(lines, line, failure, span);
      return { ...pointDatum(line, last), x2: end.x, y2: end.y };
    });
  });
}

/**
 * Names beside the ends of lines, moved apart, with their markers.
 * @param {Line[]} lines
 * @param {Span} span
 * @param {number} letters
 */
function scalingLabels(lines, span, letters) {
  const drawn = lines.filter((line) => line.points.length);
  const ends = drawn.map((line) => pointDatum(line, line.points[line.points.length - 1]));
  const right = Math.max(...lines.flatMap((line) => [...line.points, ...line.failures].map((each) => each.N)));
  const places = apart(
    ends.map((end) => Math.min(shareOf(span, end.y), 1)),
    Math.min(0.06, 0.95 / drawn.length),
  );
  const data = ends.map((end, place) => ({
    ...end,
    x2: right,
    y2: valueAt(span, places[place]),
    words: cut(DATA.methods[end.method].name, letters),
  }));
  // a line that ends inside the panel is told by the marker beside its name: a leader would cross the others
  const leaders = data.filter((_, place) => drawn[place].points.some((point) => point.N === right));
  const words = data.map((datum) => ({ ...datum, x: datum.x2, y: datum.y2 }));
  return [links(leaders, { opacity: 0.5 }), dots(words, em() * 0.95), labels(words, em() * 1.5)];
}

/**
 * @param {Line[]} lines
 * @param {Span} span
 * @param {(x: number, y: number) => [number, number]} at
 * @returns {Target[]}
 */
function scalingTargets(lines, span, at) {
  return lines.flatMap((line) => {
    const points = line.points.map((point) => pointDatum(line, point));
    const failures = line.failures.map((failure) => failureDatum(lines, line, failure, span));
    return [...points, ...failures].map((datum) => {
      const [x, y] = at(datum.x, datum.y);
      return { cell: datum.cell, x, y, series: line.key };
    });
  });
}
