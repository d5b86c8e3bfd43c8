// @ts-check
// What a chart of one quantity over length is made of: a line for each method and run.

/** @typedef {{cell: number, N: number, value: number, low: number | null, high: number | null}} Point */
/** @typedef {{cell: number, N: number, value: number | null, first: boolean}} Failure */
/** @typedef {{key: string, method: number, run: number, points: Point[], failures: Failure[]}} Line */

/**
 * @param {Quantity} quantity
 * @param {number} group
 * @param {number[]} runs
 * @param {number[]} methods
 * @param {Scale} scale where it is logarithmic, 0 has no place
 * @returns {Line[]} those that have cells
 */
function linesOf(quantity, group, runs, methods, scale) {
  return runs.flatMap((run) =>
    methods.flatMap((method) => {
      const key = `${group}/${run}/${method}`;
      const cells = SERIES.get(key);
      return cells
        ? [{ key, method, run, points: pointsOf(quantity, cells, scale), failures: failuresOf(quantity, cells) }]
        : [];
    }),
  );
}

/**
 * @param {Quantity} quantity
 * @param {number[]} cells
 * @param {Scale} scale
 * @returns {Point[]}
 */
function pointsOf(quantity, cells, scale) {
  return cells.flatMap((cell) => {
    const value = quantity.value[cell];
    if (value === null || (scale === "log" && value <= 0)) return [];
    return [{ cell, N: DATA.cells.N[cell], value, ...ends(quantity, cell, scale) }];
  });
}

/**
 * Of a range of more than one number.
 * @param {Quantity} quantity
 * @param {number} cell
 * @param {Scale} scale
 * @returns {{low: number | null, high: number | null}}
 */
function ends(quantity, cell, scale) {
  const low = quantity.low[cell] ?? null;
  const high = quantity.high[cell] ?? null;
  return low === null || high === null || low === high || (scale === "log" && low <= 0)
    ? { low: null, high: null }
    : { low, high };
}

/**
 * The first of each status stands out.
 * @param {Quantity} quantity
 * @param {number[]} cells
 * @returns {Failure[]}
 */
function failuresOf(quantity, cells) {
  const seen = new Set();
  return cells.filter(failed).map((cell) => {
    const status = statusOf(cell).key;
    const first = !seen.has(status);
    seen.add(status);
    return { cell, N: DATA.cells.N[cell], value: quantity.beyond[String(cell)] ?? null, first };
  });
}
