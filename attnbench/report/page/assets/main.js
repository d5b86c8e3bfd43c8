// @ts-check
// The page as a whole: the view, its link, and what has to be drawn anew when it changes.

let view = decoded(location.hash);
/** By part of the page: what it was drawn for. */
const painted = new Map();

/** @param {Partial<View>} changes */
function change(changes) {
  const start = performance.now();
  view = { ...view, ...changes };
  const hash = encoded();
  try {
    history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  } catch {
    // some browsers forbid that; what is shown does not depend on it
  }
  paint();
  afterFrame(() => {
    performance.measure("attnbench:change", { start });
    paintOthers();
  });
}

/** Act once what was changed is on the screen. @param {() => void} act */
const afterFrame = (act) => requestAnimationFrame(() => setTimeout(act));

/** Draw a part if what it depends on has changed. @param {string} name @param {unknown} state @param {() => void} draw */
function repaint(name, state, draw) {
  const wanted = JSON.stringify(state);
  if (painted.get(name) === wanted) return;
  painted.set(name, wanted);
  draw();
}

function paint() {
  const { group, theme, sort, filter, rows } = view;
  repaint("theme", theme, paintTheme);
  repaint("table", [sort, filter, rows], paintTable);
  if (!DATA.groups.length) return;
  repaint("group", group, () => {
    for (const each of document.querySelectorAll(".of-group")) {
      each.classList.toggle("chosen", /** @type {HTMLElement} */ (each).dataset.group === String(group));
    }
    buildMethods();
  });
  paintControls();
  paintMethods();
  paintCurves();
}

function paintCurves() {
  const learning = learns();
  part("scaling-head").textContent = learning ? "How it learns" : "How it grows with length";
  part("scaling-about").hidden = learning || !quantityShown();
  part("learning-about").hidden = !learning;
  const { quantity, x, y, runs, over, curve, at } = view;
  chartsIn("scaling-charts", [quantity, x, y, runs, over, curve, learning ? at : 0], growthCharts);
}

/** The charts further down, which may come a moment later. */
function paintOthers() {
  if (!DATA.groups.length) return;
  chartsIn("weighing-charts", [view.cost, view.loss, view.at], weighingCharts);
  chartsIn("roofline-charts", [], rooflineCharts);
}

/** @param {string} id @param {unknown[]} state besides what every chart depends on @param {(width: number) => HTMLElement[]} draw */
function chartsIn(id, state, draw) {
  const place = document.getElementById(id);
  if (!place) return;
  const width = place.clientWidth;
  repaint(id, [view.group, visible(), view.without, ...state, width], () => {
    const charts = runsShown().length ? draw(width) : [empty("No run is chosen.")];
    place.classList.toggle("two", columnsOf(charts.length, width) === 2);
    place.replaceChildren(...charts);
  });
}

buildTable();
paint();
// links within the page leave the view in the address as it is
for (const anchor of document.querySelectorAll('a[href^="#"]')) {
  anchor.addEventListener("click", (event) => {
    event.preventDefault();
    const target = part((anchor.getAttribute("href") ?? "#").slice(1));
    target.scrollIntoView();
    /** @type {HTMLElement | null} */ (target.querySelector("h2"))?.focus({ preventScroll: true });
  });
}
for (const map of document.querySelectorAll("table.map")) {
  map.addEventListener("pointerover", (event) => {
    const place = /** @type {HTMLElement} */ (event.target).closest("td");
    if (!place?.dataset.cell) return hideTip();
    const box = place.getBoundingClientRect();
    showTip({ cell: Number(place.dataset.cell) }, box.right, box.top + box.height / 2);
  });
  map.addEventListener("pointerleave", hideTip);
}
for (const block of document.querySelectorAll("pre.copied")) {
  block.after(copyButton("Copy", block.getAttribute("aria-label") ?? "the text", () => block.textContent ?? ""));
}
// on paper nothing is folded
/** @type {HTMLDetailsElement[]} */
let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details")].filter((each) => !each.open);
  for (const each of opened) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of opened) each.open = false;
});
// a link that was pasted into the address; that of a part of the page says nothing of a view
addEventListener("hashchange", () => {
  if (document.getElementById(location.hash.slice(1))) return;
  view = decoded(location.hash);
  /** @type {HTMLInputElement} */ (part("cells-filter")).value = view.filter;
  paint();
  afterFrame(paintOthers);
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") hideTip();
});
afterFrame(() => {
  performance.mark("attnbench:shown");
  paintOthers();
  document.documentElement.classList.add("drawn");
  // the window has another width, or the paper has
  const refit = () => {
    if (!DATA.groups.length) return;
    paintCurves();
    paintOthers();
  };
  new ResizeObserver(() => requestAnimationFrame(refit)).observe(document.body);
});
