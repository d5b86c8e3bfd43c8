// @ts-check
// How far an axis of values reaches. A share is a fraction of its height, from the bottom.

/** @typedef {{low: number, high: number, scale: Scale, roof: number}} Span up to the roof there are lines, above it rows of crosses */

/** Share of the height of a row of crosses for a method that never ran. */
const ROW = 0.05;

/**
 * Around all points, with room above for failures; null where there is nothing.
 * @param {Line[]} lines
 * @param {Scale} scale
 * @returns {Span | null}
 */
function spanOf(lines, scale) {
  const points = lines.flatMap((line) => line.points);
  if (!points.length) return null;
  const low = Math.min(...points.map((point) => point.low ?? point.value));
  const most = Math.max(...points.map((point) => point.high ?? point.value));
  const marks = lines.flatMap((line) => line.failures.map((failure) => failure.value ?? 0));
  // failures far above would press the lines into a corner
  const high = Math.max(most, ...marks.map((mark) => Math.min(mark, (scale === "log" ? 3 : 1.3) * most)));
  const rows = lines.filter((line) => !line.points.length && line.failures.length).length;
  return scale === "log" ? logSpan(low / 1.4, high * 1.4, rows) : linearSpan(high * 1.05, rows);
}

/**
 * @param {number} low
 * @param {number} high
 * @param {number} rows
 * @returns {Span}
 */
function logSpan(low, high, rows) {
  const roof = Math.max(0.5, 1 - ROW * rows);
  return { low, high: low * Math.max(high / low, 4) ** (1 / roof), scale: "log", roof };
}

/**
 * @param {number} high
 * @param {number} rows
 * @returns {Span}
 */
function linearSpan(high, rows) {
  const roof = Math.max(0.5, 1 - ROW * rows);
  return { low: 0, high: (high || 1) / roof, scale: "linear", roof };
}

/**
 * @param {Span} span
 * @param {number} value
 */
function shareOf(span, value) {
  if (span.scale === "linear") return value / span.high;
  return Math.log(Math.max(value, span.low) / span.low) / Math.log(span.high / span.low);
}

/**
 * @param {Span} span
 * @param {number} share
 */
function valueAt(span, share) {
  return span.scale === "linear" ? share * span.high : span.low * (span.high / span.low) ** share;
}

/**
 * Moved apart, as little as that takes, in their order, and within 0 to 1 as far as they fit.
 * @param {number[]} shares
 * @param {number} height of one, as a share
 * @returns {number[]}
 */
function apart(shares, height) {
  const order = shares.map((_, place) => place).sort((a, b) => shares[a] - shares[b]);
  /** @type {{members: number[], middle: number}[]} */
  const blocks = [];
  for (const place of order) {
    blocks.push({ members: [place], middle: shares[place] });
    while (blocks.length > 1 && overlap(blocks[blocks.length - 2], blocks[blocks.length - 1], height)) {
      const upper = /** @type {{members: number[], middle: number}} */ (blocks.pop());
      const lower = /** @type {{members: number[], middle: number}} */ (blocks.pop());
      blocks.push(joined(lower, upper, shares, height));
    }
  }
  const moved = [...shares];
  for (const { members, middle } of blocks) {
    members.forEach((member, place) => (moved[member] = middle + (place - (members.length - 1) / 2) * height));
  }
  return moved;
}

/**
 * @param {{members: number[], middle: number}} lower
 * @param {{members: number[], middle: number}} upper
 * @param {number} height
 */
function overlap(lower, upper, height) {
  return lower.middle + (lower.members.length * height) / 2 > upper.middle - (upper.members.length * height) / 2 + 1e-9;
}

/**
 * @param {{members: number[], middle: number}} lower
 * @param {{members: number[], middle: number}} upper
 * @param {number[]} shares
 * @param {number} height
 */
function joined(lower, upper, shares, height) {
  const members = [...lower.members, ...upper.members];
  const wished = members.reduce((sum, member) => sum + shares[member], 0) / members.length;
  const half = (members.length * height) / 2;
  return { members, middle: Math.max(half, Math.min(wished, 1 - half + height / 2)) };
}
