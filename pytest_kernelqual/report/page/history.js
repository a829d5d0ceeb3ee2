// The page of a history: one plot and one table for each kernel, a line for each key.

const SHOWN_LINES = 8;
const DASHES = [[], [6, 3], [2, 2], [8, 3, 2, 3]];
const percent = (change) => `${change >= 0 ? "+" : ""}${(100 * change).toFixed(1)} %`;
const day = (at) => new Date(at * 1000).toISOString().slice(0, 16).replace("T", " ");

start((data) => {
  const device = byId("device");
  const order = byId("order");
  const search = byId("search");
  for (const name of data.devices) device.append(make("option", { value: name }, name));
  for (const course of data.courses) {
    const told = course.points.flatMap((point) => [point.config, point.verdict]);
    course.text = [course.kernel, course.key, ...new Set(told)].join("\n").toLowerCase();
  }
  const show = () => {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = new Map();
    for (const course of data.courses) {
      if (course.device !== device.value || !holds(course.text, wanted)) continue;
      if (!found.has(course.kernel)) found.set(course.kernel, []);
      found.get(course.kernel).push(course);
    }
    const entries = [...found].map(([kernel, courses]) => ({ kernel, courses: courses.sort((a, b) => a.change - b.change) }));
    if (order.value === "loss") entries.sort((a, b) => a.courses[0].change - b.courses[0].change);
    const place = byId("kernels");
    lazily(place, entries, kernelHistory, 8, 8);
    if (!entries.length) place.append(make("p", { class: "empty" }, data.courses.length ? "Nothing matches this search." : "No report timed a committed config."));
    byId("status").textContent = `${counted(entries.length, "kernel")}, ${counted(entries.reduce((sum, { courses }) => sum + courses.length, 0), "committed config")} shown`;
  };
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 80); });
  device.addEventListener("change", show);
  order.addEventListener("change", show);
  show();
});

function kernelHistory({ kernel, courses }) {
  const plot = make("div", { class: "plot" });
  const rows = courses.map((course, at) => {
    const [first, last] = [course.points[0], course.points.at(-1)];
    return make("tr", { class: last.verdict === "ok" ? "" : "failing" },
      make("th", { scope: "row" }, lineSample(at), make("button", { type: "button", class: "link", onclick: () => courseDetail(course) }, course.key)),
      make("td", { class: "number" }, `${first.speed_up.toFixed(3)}× → ${last.speed_up.toFixed(3)}×`),
      make("td", { class: "number" }, percent(course.change)),
      make("td", {}, words(last.verdict), course.retuned ? make("span", { class: "muted small" }, `re-tuned ${counted(course.retuned, "time")}`) : null),
      make("td", { class: "wide" }, counted(course.points.length, "run")));
  });
  const titles = ["Key", "Speed-up", "Change", "Last verdict", "Runs"];
  const table = make("table", { class: "plain", "aria-label": `Committed configs of ${kernel}` },
    make("thead", {}, make("tr", {}, titles.map((title, at) => make("th", { scope: "col", class: at === 4 ? "wide" : "" }, title)))), make("tbody", {}, rows));
  const card = make("section", { class: "history", "aria-label": kernel }, make("h2", { class: "name" }, kernel), plot,
    courses.length > SHOWN_LINES ? make("p", { class: "muted small" }, `The plot shows the first ${SHOWN_LINES} of the table.`) : null,
    scrolling(`Committed configs of ${kernel}`, table));
  requestAnimationFrame(() => historyPlot(plot, courses.slice(0, SHOWN_LINES)));
  return card;
}

/** Show which line of the plot is meant, by colour and dashes. */
function lineSample(at) {
  if (at >= SHOWN_LINES) return null;
  const namespace = "http://www.w3.org/2000/svg";
  const sample = document.createElementNS(namespace, "svg");
  const line = document.createElementNS(namespace, "line");
  for (const [name, value] of Object.entries({ width: 28, height: 10, "aria-hidden": true, class: "sample" })) sample.setAttribute(name, value);
  for (const [name, value] of Object.entries({ x1: 0, x2: 28, y1: 5, y2: 5, stroke: `var(--line-${(at % 4) + 1})`, "stroke-width": 2.5, "stroke-dasharray": dashes(at).join(" ") })) line.setAttribute(name, value);
  sample.append(line);
  return sample;
}

const dashes = (at) => DASHES[Math.floor(at / 4) + (at % 2) * 2];

function historyPlot(place, courses) {
  const times = [...new Set(courses.flatMap(({ points }) => points.map(({ at }) => at)))].sort((a, b) => a - b);
  const values = courses.map(({ points }) => {
    const by = new Map(points.map((point) => [point.at, point.speed_up]));
    return times.map((at) => by.get(at) ?? null);
  });
  const toolchains = new Map(courses.flatMap(({ points }) => points.map(({ at, toolchain }) => [at, toolchain])));
  const changes = times.filter((at, place) => place > 0 && toolchains.get(at) !== toolchains.get(times[place - 1])).map((at) => [at, toolchains.get(at)]);
  const spread = Math.max(3600, (times.at(-1) - times[0]) * 0.03);
  drawn(place, () => ({
    tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    scales: { x: { range: [times[0] - spread, times.at(-1) + spread] }, y: { distr: 3, log: 10, range: (_, low, high) => [Math.min(low, 1) / 1.03, high * 1.03] } },
    axes: [axis({ size: 44 }), ratioAxis()],
    series: [{ label: "Run" }, ...courses.map(({ key }, at) => ({
      label: key, stroke: colour(`line-${(at % 4) + 1}`), width: 2, dash: dashes(at), spanGaps: true,
      points: { show: true, size: 6, fill: colour(`line-${(at % 4) + 1}`) }, value: (_, value) => (value === null ? "–" : `${value.toFixed(3)}×`),
    }))],
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { show: false },
    plugins: [levels([[1, [], "muted"]]), moments(changes)],
  }), [times, ...values]);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Speed-ups of ${counted(courses.length, "committed config")} from ${day(times[0])} to ${day(times.at(-1))}; the table below tells them`);
}

/** Mark moments, such as that of a new compiler, by a line with a word. */
function moments(of) {
  return { hooks: { draw: (plot) => {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = colour("muted");
    ctx.setLineDash([3 * devicePixelRatio, 3 * devicePixelRatio]);
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    for (const [at, told] of of) {
      const left = plot.valToPos(at, "x", true);
      ctx.textAlign = left > bbox.left + bbox.width / 2 ? "right" : "left";
      ctx.beginPath();
      ctx.moveTo(left, bbox.top);
      ctx.lineTo(left, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(told, left + (ctx.textAlign === "left" ? 4 : -4) * devicePixelRatio, bbox.top + 11 * devicePixelRatio);
    }
    ctx.restore();
  } } };
}

function courseDetail(course) {
  const plot = make("div", { class: "plot" });
  const rows = [...course.points].reverse().map((point) => [
    day(point.at), `${point.speed_up.toFixed(3)}× ${point.bounds ? `[${point.bounds.map((bound) => bound.toFixed(3)).join(", ")}]` : ""}`,
    point.times_us ? point.times_us.map((time) => time.toFixed(2)).join(" and ") : "–", words(point.verdict), make("code", {}, point.config), point.toolchain, point.report,
  ]);
  showDetail(`${course.kernel} ${course.key} on ${course.device}`, plot,
    plainTable("Runs", ["Run (UTC)", "Speed-up [bounds]", "Median µs, fixed and committed", "Verdict", "Config", "Compiler", "Report"], rows));
  historyPlot(plot, [course]);
}
