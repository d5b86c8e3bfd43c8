// @ts-check
// Ticks, and what they say.

/**
 * `20 ms`
 * @param {number} value
 * @param {string} unit
 * @param {[number, string]} [scale] of the whole axis, where it has one
 */
function said(value, unit, scale) {
  const known = DATA.units[unit];
  const [size, word] = scale ?? known.find((each) => Math.abs(value) >= each[0] * (1 - 1e-9)) ?? known[known.length - 1];
  const digits = String(Number((value / size).toPrecision(6)));
  return /^(%|[kMG]?\/s)$/.test(word) ? `${digits}${word}` : `${digits} ${word}`.trim();
}

/**
 * Values and words along an axis of values.
 * @param {number} low
 * @param {number} high
 * @param {string} unit
 * @param {Scale} scale
 * @returns {Map<number, string>}
 */
function valueTicks(low, high, unit, scale) {
  if (scale === "log") return new Map(logTicks(low, high, unit === "B" ? 2 : 10).map((value) => [value, said(value, unit)]));
  const known = DATA.units[unit];
  const size = known.find((each) => high >= each[0]) ?? known[known.length - 1];
  return new Map(linearTicks(high / size[0]).map((value) => [value * size[0], said(value * size[0], unit, size)]));
}

/**
 * Powers of the base, at most seven; of ten also 2 and 5 of each where there are fewer than three.
 * @param {number} low
 * @param {number} high
 * @param {number} base
 */
function logTicks(low, high, base) {
  const first = Math.floor(Math.log(low) / Math.log(base));
  const last = Math.ceil(Math.log(high) / Math.log(base));
  const exponents = Array.from({ length: last - first + 1 }, (_, place) => first + place);
  /** @param {number} value */
  const inside = (value) => low <= value && value <= high;
  const powers = exponents.filter((each) => inside(base ** each));
  if (base === 10 && powers.length < 3)
    return exponents.flatMap((each) => [1, 2, 5].map((lead) => lead * 10 ** each)).filter(inside);
  const step = Math.max(1, Math.ceil(powers.length / 7));
  return powers.filter((each) => each % step === 0).map((each) => base ** each);
}

/**
 * From 0 in steps of 1, 2 or 5 times a power of ten; five or so.
 * @param {number} high
 */
function linearTicks(high) {
  const power = 10 ** Math.floor(Math.log10(high / 4));
  const step = power * ([1, 2, 5, 10].find((lead) => high / (lead * power) <= 6) ?? 10);
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, place) => place * step);
}

/**
 * Of values along an axis those whose words have room.
 * @param {number[]} values rising
 * @param {(value: number) => number} place in pixels
 * @param {number} space in pixels
 */
function roomy(values, place, space) {
  /** @type {number[]} */
  const chosen = [];
  for (const value of values) {
    const last = chosen[chosen.length - 1];
    if (last === undefined || place(value) - place(last) >= space) chosen.push(value);
  }
  return chosen;
}
