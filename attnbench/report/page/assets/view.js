// @ts-check
// What is shown, and the link that restores it: readable pairs behind the #. What a link says and this page has not is ignored.

/** What can be chosen, by key: the words of a link, the usual one first, and what they are called. */
const WORDS = /** @type {const} */ ({
  x: { log: "logarithmic", linear: "linear" },
  y: { log: "logarithmic", linear: "linear" },
  runs: { over: "over each other", side: "side by side" },
  over: { updates: "updates", seconds: "time of training", N: "lengths" },
  curve: { loss: "loss", accuracy: "accuracy", error_rate: "error rate" },
  methods: { first: "first", all: "all", none: "none" },
  rows: { first: "first", all: "all" },
  theme: { auto: "Theme: system", light: "Theme: light", dark: "Theme: dark" },
});
const PARTS = /** @type {const} */ (["workload", "mask", "conditions"]);

/** @returns {View} */
function usual() {
  const words = Object.fromEntries(Object.entries(WORDS).map(([key, known]) => [key, Object.keys(known)[0]]));
  const rest = { quantity: "", cost: "", loss: "", at: 0, sort: "", filter: "", hide: [], show: [], without: [] };
  return /** @type {any} */ ({ group: DATA.first, ...words, ...rest });
}

/** @param {string} hash @returns {View} */
function decoded(hash) {
  const pairs = new URLSearchParams(hash.slice(1));
  /** @param {string} key @param {{name: string}[]} known */
  const numbers = (key, known) => [...known.keys()].filter((number) => pairs.getAll(key).includes(known[number].name));
  const words = Object.entries(WORDS).filter(([key, known]) => Object.hasOwn(known, pairs.get(key) ?? ""));
  const figures = ["quantity", "cost", "loss"].filter((key) => quantityOf(pairs.get(key) ?? ""));
  const sort = pairs.get("sort") ?? "";
  const first = DATA.groups[DATA.first];
  return {
    ...usual(),
    ...Object.fromEntries([...words.map(([key]) => key), ...figures].map((key) => [key, pairs.get(key) ?? ""])),
    group: first
      ? nearest(Object.assign({}, first, ...PARTS.map((key) => (pairs.has(key) ? { [key]: pairs.get(key) } : {}))))
      : DATA.first,
    hide: numbers("hide", DATA.methods),
    show: numbers("show", DATA.methods),
    without: numbers("without", DATA.runs),
    at: Number(pairs.get("at")) || 0,
    filter: pairs.get("filter") ?? "",
    sort: KEYS.includes(sort.replace(/^-/, "")) ? sort : "",
  };
}

/** The group that agrees in most: the workload before the mask before the conditions. @param {Pick<Group, "workload" | "mask" | "conditions">} wanted */
function nearest(wanted) {
  const all = DATA.groups.map((group) => PARTS.reduce((sum, key) => 2 * sum + Number(group[key] === wanted[key]), 0));
  const most = Math.max(...all);
  // of several that agree as well, what is shown at first
  return all[DATA.first] === most ? DATA.first : all.indexOf(most);
}

/** Only what is not as usual. */
function encoded() {
  const pairs = new URLSearchParams();
  const [group, first, normal] = [DATA.groups[view.group], DATA.groups[DATA.first], usual()];
  for (const key of PARTS) if (group && group[key] !== first[key]) pairs.set(key, group[key]);
  // the group is told by its parts, and lists name by name
  for (const key of /** @type {(keyof View)[]} */ (Object.keys(normal)))
    if (key !== "group" && !Array.isArray(normal[key]) && view[key] !== normal[key]) pairs.set(key, String(view[key]));
  for (const key of /** @type {const} */ (["hide", "show"]))
    for (const each of view[key]) pairs.append(key, DATA.methods[each].name);
  for (const run of view.without) pairs.append("without", DATA.runs[run].name);
  return pairs.toString();
}

/** The methods that are drawn. @param {View} of */
function visible(of = view) {
  const group = DATA.groups[of.group];
  const base = of.methods === "first" ? group.first : of.methods === "all" ? group.methods : [];
  return group.methods.filter((method) => (base.includes(method) && !of.hide.includes(method)) || of.show.includes(method));
}

/** The changes by which one method is drawn or not. @param {number} method @param {boolean} drawn @returns {Partial<View>} */
function toggled(method, drawn) {
  const hide = view.hide.filter((each) => each !== method);
  const show = view.show.filter((each) => each !== method);
  if (visible({ ...view, hide: [], show: [] }).includes(method) === drawn) return { hide, show };
  return drawn ? { hide, show: [...show, method] } : { hide: [...hide, method], show };
}

/** The runs of the group that are not left out. */
function runsShown() {
  const present = new Set(DATA.cells.run.filter((_, cell) => DATA.cells.group[cell] === view.group));
  return [...DATA.runs.keys()].filter((run) => present.has(run) && !view.without.includes(run));
}

/** The quantity of the curves; the first that the group has where the one asked for is not there. */
function quantityShown() {
  const known = quantitiesOf(view.group);
  return known.find((each) => each.key === view.quantity) ?? known[0];
}
