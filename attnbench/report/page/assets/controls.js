// @ts-check
// The choices of what is shown. A control stays the same element as long as the page lives, and so keeps the focus.

/** A list to choose from, whose key is that of the view; hidden where there is nothing to choose. @param {HTMLElement} bar @param {string} key @param {string} words @param {[value: string, words: string][]} options @param {string} chosen @param {(value: string) => void} [choose] */
function choice(bar, key, words, options, chosen, choose = (value) => change({ [key]: value })) {
  let list = /** @type {HTMLSelectElement | null} */ (bar.querySelector(`select[data-key="${key}"]`));
  if (!list) {
    list = element("select", { "data-key": key });
    bar.append(element("label", {}, words, list));
  }
  const wanted = JSON.stringify(options);
  if (list.dataset.options !== wanted) {
    list.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
    list.dataset.options = wanted;
  }
  list.value = chosen;
  const made = list;
  list.onchange = () => choose(made.value);
  /** @type {HTMLElement} */ (list.parentElement).hidden = options.length < 2;
}

/** @param {number[]} lengths @returns {[string, string][]} */
const lengthOptions = (lengths) => lengths.map((N) => [String(N), `N = ${lengthWords(N)}`]);

function paintControls() {
  const group = DATA.groups[view.group];
  const bar = part("view");
  PARTS.forEach((key, place) => {
    // the masks of this workload, the conditions of this mask
    const among = DATA.groups.filter((each) => PARTS.slice(0, place).every((outer) => each[outer] === group[outer]));
    const words = [...new Set(among.map((each) => each[key]))];
    const title = `${key[0].toUpperCase()}${key.slice(1)}`;
    const options = words.map((word) => /** @type {[string, string]} */ ([word, DATA.workloads[word] ?? word]));
    choice(bar, key, title, options, group[key], (value) => change({ group: nearest({ ...group, [key]: value }) }));
  });
  if (DATA.runs.length > 1) {
    choice(bar, "runs", "Runs", Object.entries(WORDS.runs), view.runs);
    if (!bar.querySelector("input")) bar.append(...DATA.runs.map((_, run) => runBox(run)));
    for (const box of bar.querySelectorAll("input")) box.checked = !view.without.includes(Number(box.dataset.run));
  }
  bar.hidden = DATA.groups.length < 2 && DATA.runs.length < 2;

  const quantity = quantityShown();
  const curves = part("scaling-controls");
  const [trained, learning] = [learners().length > 0, learns()];
  const figures = quantitiesOf(view.group).map((each) => /** @type {[string, string]} */ ([each.key, each.titles[view.group]]));
  choice(curves, "quantity", "Show", learning ? [] : figures, quantity?.key ?? "");
  const { scores, lengths, N, score } = learnable();
  choice(curves, "over", "Over", trained ? Object.entries(WORDS.over) : [], view.over);
  choice(curves, "curve", "Learnt", learning ? scores.map((each) => [each, WORDS.curve[each]]) : [], score ?? "");
  choice(curves, "trained", "Trained at", learning ? lengthOptions(lengths) : [], String(N), (value) =>
    change({ at: Number(value) }),
  );
  choice(curves, "x", "Lengths", learning || !quantity ? [] : Object.entries(WORDS.x), view.x);
  choice(curves, "y", "Values", (learning && score === "accuracy") || !quantity ? [] : Object.entries(WORDS.y), view.y);

  const weighing = document.getElementById("weighing-controls");
  if (weighing) {
    const found = weighed();
    /** @param {Quantity} each @returns {[string, string]} */
    const option = (each) => [each.key, each.titles[view.group]];
    choice(weighing, "loss", "Loss", found.losses.map(option), found.loss?.key ?? "");
    choice(weighing, "cost", "Cost", found.costs.map(option), found.cost?.key ?? "");
    choice(weighing, "at", "Length", lengthOptions(found.lengths), String(found.at), (value) => change({ at: Number(value) }));
  }
}

/** @param {number} run */
function runBox(run) {
  const line = sample(30, 12, "currentColor", RUN_DASHES[run % RUN_DASHES.length]);
  /** @type {HTMLInputElement} */
  const box = element("input", {
    type: "checkbox",
    "data-run": run,
    change: () => {
      const others = view.without.filter((each) => each !== run);
      change({ without: box.checked ? others : [...others, run] });
    },
  });
  return element("label", {}, box, line, DATA.runs[run].name);
}

function paintTheme() {
  if (view.theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = view.theme;
  choice(part("theme"), "theme", "", Object.entries(WORDS.theme), view.theme);
  part("theme").querySelector("select")?.setAttribute("aria-label", "Theme");
}

/** The methods of a group: their legend, and the boxes by which they are drawn or not. Built anew for another group only, so that the focus stays where it is. */
function buildMethods() {
  const group = DATA.groups[view.group];
  /** @param {string} words @param {string} about @param {View["methods"]} methods */
  const pick = (words, about, methods) =>
    element("button", { type: "button", title: about, click: () => change({ methods, hide: [], show: [] }) }, words);
  const some = group.first.length < group.methods.length;
  const picks = [
    ...(some ? [pick("First", "Those of least time at the longest common length, and the baseline", "first")] : []),
    pick("All", "Draw all methods", "all"),
    pick("None", "Draw no method", "none"),
  ];
  const entries = group.methods.map((method) => {
    const { name } = DATA.methods[method];
    /** @type {HTMLInputElement} */
    const box = element("input", {
      type: "checkbox",
      "data-method": method,
      change: () => change(toggled(method, box.checked)),
    });
    const only = () => change({ methods: "none", hide: [], show: [method] });
    const label = element("label", {}, box, swatch(method), element("span", {}, name, element("span", { class: "fit" })));
    return element("li", {}, label, element("button", { type: "button", "aria-label": `Only ${name}`, click: only }, "only"));
  });
  const list = element("ul", { class: "entries" }, ...entries);
  const legend = element("legend", { id: "methods-count" }, "");
  part("methods").replaceChildren(element("fieldset", {}, legend, element("div", { class: "pick" }, ...picks), list));
}

/** A piece of the line with its marker. @param {number} method */
function swatch(method) {
  const { color, dash, filled } = DATA.methods[method];
  const fill = filled ? color : "var(--back)";
  const d = outlined(DATA.methods[method], [17, 7], 4.5);
  return sample(34, 14, color, dash, drawing("path", { d, fill, stroke: color, "stroke-width": 1.3 }));
}

/** A piece of a line as wide as its picture, and what lies on it. @param {number} width @param {number} height @param {string} stroke @param {string} dash @param {...Node} above */
function sample(width, height, stroke, dash, ...above) {
  const [middle, dashes] = [height / 2, dash || "none"];
  const line = { x1: 0, x2: width, y1: middle, y2: middle, stroke, "stroke-width": 1.6, "stroke-dasharray": dashes };
  const frame = { width, height, viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" };
  return drawing("svg", frame, drawing("line", line), ...above);
}

/** Boxes, counts and growth as they are now. */
function paintMethods() {
  const group = DATA.groups[view.group];
  const [drawn, quantity, runs] = [visible(), quantityShown(), runsShown()];
  const about =
    group.first.length < group.methods.length && view.methods === "first"
      ? ": at first the baseline and, where they were timed, the fastest at the longest common length"
      : "";
  part("methods-count").textContent = `Methods, ${drawn.length} of ${group.methods.length} drawn${about}`;
  for (const box of part("methods").querySelectorAll("input")) {
    const method = Number(box.dataset.method);
    const measured = DATA.cells.method.some(
      (own, cell) => own === method && DATA.cells.group[cell] === view.group && quantity?.value[cell] != null,
    );
    const fit = runs.length === 1 && !learns() ? quantity?.fits[`${view.group}/${runs[0]}/${method}`] : "";
    const item = /** @type {HTMLElement} */ (box.closest("li"));
    box.checked = drawn.includes(method);
    item.classList.toggle("without", !measured);
    /** @type {HTMLElement} */ (item.querySelector(".fit")).textContent = fit ?? "";
  }
}
