// @ts-check
// Quality against cost, a point for each method at one length; and the roofline, FLOPs per second by FLOPs per byte.

/** The lengths, costs and losses that the group has; and what is asked for of them where it is there, else the first cost and loss, at the longest of the lengths with the most methods. */
function weighed() {
  const members = DATA.pairs.filter((each) => each.group === view.group && !view.without.includes(each.run));
  const keys = members.flatMap((each) => Object.keys(each.fronts));
  const costs = DATA.quantities.filter((each) => keys.some((key) => key.startsWith(`${each.key}/`)));
  const losses = DATA.quantities.filter((each) => keys.some((key) => key.endsWith(`/${each.key}`)));
  const lengths = rising(members.map((each) => each.N));
  const most = Math.max(...members.map((each) => each.cells.length));
  const at = lengths.includes(view.at)
    ? view.at
    : Math.max(...members.filter((each) => each.cells.length === most).map((each) => each.N));
  const cost = costs.find((each) => each.key === view.cost) ?? costs[0];
  const loss = losses.find((each) => each.key === view.loss) ?? losses[0];
  return { members: members.filter((each) => each.N === at), costs, losses, lengths, cost, loss, at };
}

/** @param {number} width @returns {HTMLElement[]} */
function weighingCharts(width) {
  const { members, cost, loss } = weighed();
  if (!cost || !loss) return [empty("No method of this part has both a cost and a measured quality.")];
  const made = members.flatMap((pairs) =>
    weighingPanel(pairs, cost, loss, Math.min(panelWidth(members.length, width), 62 * em())),
  );
  return made.length ? made : [empty("None of the chosen methods has both.")];
}

/** @param {Pairs} pairs @param {Quantity} cost @param {Quantity} loss @param {number} width @returns {HTMLElement[]} */
function weighingPanel(pairs, cost, loss, width) {
  const known = pairs.cells.map(([paid, lost]) => {
    const [x, y] = [cost.value[paid], loss.value[lost]];
    if (!x || y === null) return null;
    return {
      method: DATA.cells.method[paid],
      run: pairs.run,
      cell: paid,
      z: String(paid),
      x,
      y,
      ...ranged(loss.low[lost], loss.high[lost], "linear"),
    };
  });
  const data = known.flatMap((datum) => (datum && visible().includes(datum.method) ? [datum] : []));
  if (!data.length) return [];
  const front = (pairs.fronts[`${cost.key}/${loss.key}`] ?? []).flatMap((place) => known[place] ?? []);
  const beside = Math.min(7 * em(), 0.2 * width);
  const inner = width - beside - 4 * em();
  const height = Math.max(280, Math.min(0.55 * width, em() * 27));
  const x = axisAround(
    data.map((datum) => datum.x),
    cost.unit,
    cost.titles[view.group],
    inner,
  );
  // from 0 to the largest loss; or from where all of them are, where that is far from 0
  const most = Math.max(...data.map((datum) => datum.y2 ?? datum.y), 1e-9);
  const least = Math.min(...data.map((datum) => datum.y1 ?? datum.y));
  const room = Math.max(most - least, 0.02 * most);
  const [low, high] = least > most / 2 ? [least - 0.1 * room, most + 0.1 * room] : [0, most * 1.08];
  /** @type {[number, number][]} */
  const steps = front.map((datum) => [datum.x, datum.y]);
  // who pays more than the last of the front need not lose more
  if (front.length) steps.push([x.high, front[front.length - 1].y]);
  /** @type {{x: number, y: number, end: number}[]} */
  const taken = [];
  const named = [...front.filter((datum) => data.includes(datum)), ...data.filter((datum) => !front.includes(datum))].flatMap(
    (datum) => {
      const start = along("log", [x.low, x.high], inner)(datum.x);
      // no name reaches beyond the picture
      const letters = Math.floor((inner + beside - start) / (em() * 0.5)) - 1;
      const words = cut(DATA.methods[datum.method].name, Math.min(WIDEST_LABEL, letters));
      const place = { x: start, y: along("linear", [high, low], height)(datum.y), end: start + words.length * em() * 0.5 };
      // a name that would lie on another one is left to the tip
      if (taken.some((each) => Math.abs(each.y - place.y) < em() && place.x < each.end && each.x < place.end)) return [];
      taken.push(place);
      return [{ ...datum, words }];
    },
  );
  const titles = [loss.titles[view.group], cost.titles[view.group]];
  return [
    charted({
      caption: `${titles.join(" by ")}, N = ${lengthWords(pairs.N)}${runWords(pairs.run)}`,
      words: `${titles.join(" by ")} at N = ${pairs.N}: ${data.length} methods${runWords(pairs.run)}.`,
      width,
      height,
      right: beside,
      x,
      y: { title: titles[0], scale: "linear", low, high, ticks: valueTicks(low, high, loss.unit, "linear") },
      marks: [
        outline(steps, true),
        ranges(data)[1],
        dots(data.map((datum) => ({ ...datum, r: em() * 0.3 }))),
        labels(named, em() * 0.55, -em() * 0.45),
      ],
      data,
    }),
  ];
}

/** @param {number} width @returns {HTMLElement[]} */
function rooflineCharts(width) {
  const group = DATA.groups[view.group];
  const runs = runsShown().filter((run) => run in group.roofs);
  const made = runs.flatMap((run) => rooflinePanel(group, run, Math.min(panelWidth(runs.length, width), 62 * em())));
  return made.length ? made : [empty("No chosen method has both a time and a stated cost here.")];
}

/** @param {Group} group @param {number} run @param {number} width @returns {HTMLElement[]} */
function rooflinePanel(group, run, width) {
  const data = visible().flatMap((method) => {
    const z = `${view.group}/${run}/${method}`;
    return (SERIES.get(z) ?? []).flatMap((cell, place, cells) => {
      const [x, y] = [DATA.roofline.intensity[cell], DATA.roofline.rate[cell]];
      // the longer the sequence, the larger the point
      return x && y ? [{ method, run, cell, z, x, y, r: em() * (0.15 + (0.2 * (place + 1)) / cells.length) }] : [];
    });
  });
  if (!data.length) return [];
  const [flops, bytes] = group.roofs[run];
  const x = axisAround(
    data.map((datum) => datum.x),
    "",
    "executed FLOPs per byte",
    width - 8 * em(),
  );
  const y = axisAround([...data.map((datum) => datum.y), Math.min(flops, bytes * x.high)], "FLOP/s", "FLOPs per second");
  const ridge = flops / bytes;
  /** @param {number} at @returns {[number, number]} */
  const roof = (at) => [at, Math.min(flops, bytes * at)];
  const corner = x.low < ridge && ridge < x.high ? [roof(ridge)] : [];
  return [
    charted({
      caption: `FLOPs per second by FLOPs per byte${runWords(run)}`,
      words: `Roofline: ${data.length} cell${data.length === 1 ? "" : "s"}, FLOPs per second by FLOPs per byte, ${DATA.workloads[group.workload]}, ${group.mask}, ${group.conditions}.`,
      width,
      height: Math.max(280, Math.min(0.55 * width, em() * 27)),
      x,
      y,
      marks: [outline([roof(Math.max(x.low, y.low / bytes)), ...corner, roof(x.high)]), dots(data)],
      data,
    }),
  ];
}
