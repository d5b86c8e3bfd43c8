// @ts-check
// The roofline: FLOPs per second by FLOPs per byte, below the measured roof.

/**
 * @param {View} view
 * @param {number} width
 * @returns {HTMLElement[]}
 */
function rooflineCharts(view, width) {
  const group = DATA.groups[view.group];
  const runs = runsOf(view).filter((run) => group.roof in DATA.runs[run].roofs);
  const made = runs.flatMap((run) => rooflinePanel(view, run, Math.min(panelWidth(runs.length, width), 62 * em())));
  return made.length ? made : [empty("No chosen method has both a time and a stated cost here.")];
}

/**
 * @param {View} view
 * @param {number} run
 * @param {number} width
 * @returns {HTMLElement[]}
 */
function rooflinePanel(view, run, width) {
  const data = rooflineData(view, run);
  if (!data.length) return [];
  const group = DATA.groups[view.group];
  const [flops, bytes] = DATA.runs[run].roofs[group.roof];
  const across = axisAcross(
    data.map((datum) => datum.x),
    "",
    "executed FLOPs per byte",
    width - 8 * em(),
  );
  const up = axisAround([...data.map((datum) => datum.y), Math.min(flops, bytes * across.high)], "FLOP/s", "FLOPs per second");
  const ridge = flops / bytes;
  /** @param {number} x @returns {[number, number]} */
  const roof = (x) => [x, Math.min(flops, bytes * x)];
  const corner = across.low < ridge && ridge < across.high ? [roof(ridge)] : [];
  const shown = [roof(Math.max(across.low, up.low / bytes)), ...corner, roof(across.high)];
  const { svg, at } = framed({
    width,
    height: Math.max(280, Math.min(0.55 * width, em() * 27)),
    right: 0,
    x: across,
    y: up,
    marks: [outline(shown, {}), dots(data)],
    words: `Roofline: ${data.length} cells, FLOPs per second by FLOPs per byte, ${group.workload}, ${group.mask}, ${group.conditions}.`,
  });
  const targets = data.map((datum) => {
    const [x, y] = at(datum.x, datum.y);
    return { cell: datum.cell, x, y, series: datum.z };
  });
  const name = DATA.runs.length > 1 ? `, ${DATA.runs[run].name}` : "";
  return [holder(`FLOPs per second by FLOPs per byte${name}`, svg, targets)];
}

/**
 * The longer the sequence, the larger the point.
 * @param {View} view
 * @param {number} run
 * @returns {Datum[]}
 */
function rooflineData(view, run) {
  const { intensity, rate } = DATA.roofline;
  return visible(view).flatMap((method) => {
    const key = `${view.group}/${run}/${method}`;
    const cells = SERIES.get(key) ?? [];
    return cells.flatMap((cell, place) => {
      const [x, y] = [intensity[cell], rate[cell]];
      if (!x || !y) return [];
      return [{ method, run, cell, z: key, x, y, r: em() * (0.15 + (0.2 * (place + 1)) / cells.length) }];
    });
  });
}

/**
 * A logarithmic axis around values.
 * @param {number[]} values
 * @param {string} unit
 * @param {string} title
 * @returns {Axis}
 */
function axisAround(values, unit, title) {
  const [low, high] = [Math.min(...values) / 1.6, Math.max(...values) * 1.6];
  return { title, scale: "log", low, high, ticks: valueTicks(low, high, unit, "log") };
}

/**
 * The same from left to right, where words need room.
 * @param {number[]} values
 * @param {string} unit
 * @param {string} title
 * @param {number} width of the panel, in pixels
 * @returns {Axis}
 */
function axisAcross(values, unit, title, width) {
  const axis = axisAround(values, unit, title);
  /** @param {number} value */
  const place = (value) => (width * Math.log(value / axis.low)) / Math.log(axis.high / axis.low);
  const kept = roomy([...axis.ticks.keys()], place, 4.2 * em());
  return { ...axis, ticks: new Map(kept.map((value) => [value, axis.ticks.get(value) ?? ""])) };
}
