// Committed configs: how fast each is against the fixed launch, and what became of it on each device.

const ROW_COLUMNS = [
  { title: "Kernel and key", by: (row) => `${row.kernel} ${row.key}` },
  { title: "Verdict", by: (row) => row.verdict },
  { title: "Speed-up", by: (row) => row.speed_up, numeric: true },
  { title: "Against the fixed launch" },
  { title: "Device", by: (row) => row.device, wide: true },
  { title: "Config", by: (row) => row.config, wide: true },
  { title: "Evidence", by: (row) => row.evidence, wide: true },
];

/** Return the rows of a report, each with the name of its kernel. */
function rowsOf(report) {
  return report.kernels.flatMap((kernel) => kernel.rows.map((row) => {
    row.kernel = kernel.kernel;
    row.text ??= [kernel.kernel, row.key, row.device, row.config, wordsOf(row.verdict), row.evidence && wordsOf(row.evidence), ...row.reasons].join("\n").toLowerCase();
    return row;
  }));
}

const matching = (rows, filters) => rows.filter((row) => holds(row.text, filters.words) && !(filters.failing && row.passed));

/** Return the scale on which all intervals are drawn: it holds nearly all of them, so that one outlier hides none. */
function scaleOf(rows) {
  const bounds = rows.filter((row) => row.interval).flatMap((row) => row.interval).sort((a, b) => a - b);
  if (!bounds.length) return [0.9, 1.1];
  const at = (share) => bounds[Math.round(share * (bounds.length - 1))];
  return [Math.min(0.95, at(0.02)), Math.max(1.05, at(0.97))];
}

function showSpeed(panel, report, filters) {
  const all = rowsOf(report);
  const rows = matching(all, filters);
  const timed = rows.filter((row) => row.speed_up !== null && row.interval).sort((a, b) => a.speed_up - b.speed_up);
  const scale = scaleOf(all);
  const plot = make("div", { class: "plot" });
  const table = make("table", { class: "plain rows", "aria-label": "Committed configs" });
  const body = make("tbody");
  const show = (items) => lazily(body, items, (row) => speedRow(row, scale));
  sortable(table, ROW_COLUMNS, () => rows, show);
  table.append(body);
  panel.replaceChildren(
    timed.length ? make("figure", {}, make("figcaption", {}, "Speed-up of committed configs over the fixed launch, with bounds. Below the dashed line the loss exceeds the margin. The table below holds the same figures."), plot)
      : make("p", { class: "empty" }, all.length ? "No row that matches was timed in this run." : "This report has no committed configs."),
    rows.length ? scrolling("Committed configs", table) : "");
  if (timed.length) speedPlot(plot, timed);
  show(rows);
  return `${counted(rows.length, "committed config")} shown, ${timed.length} of them timed`;
}

function speedRow(row, scale) {
  return make("tr", { class: row.passed ? "" : "failing" },
    make("th", { scope: "row" }, make("button", { type: "button", class: "link", onclick: () => rowDetail(row) }, make("span", { class: "name" }, row.kernel)), make("span", { class: "muted small" }, row.key)),
    make("td", {}, verdictBadge(row)),
    make("td", { class: "number" }, speedText(row), make("span", { class: "muted small" }, rangeText(row))),
    make("td", { class: "bar" }, row.interval && row.speed_up !== null ? intervalBar(row, scale) : make("span", { class: "muted" }, row.reasons.at(-1) ?? (row.config === "fixed launch" ? "is the fixed launch" : "not timed"))),
    make("td", { class: "wide" }, row.device), make("td", { class: "wide" }, make("code", {}, row.config)), make("td", { class: "wide" }, row.evidence ? words(row.evidence) : "–"));
}

// Devices: of several reports that tell of one row, the last one that timed it counts.

function showDevices(panel, reports, filters) {
  const found = new Map();
  const devices = new Set();
  for (const report of reports) {
    for (const row of rowsOf(report)) {
      const name = `${row.kernel}\n${row.key}`;
      if (!found.has(name)) found.set(name, { kernel: row.kernel, key: row.key, on: new Map() });
      const on = found.get(name).on;
      const before = on.get(row.device);
      const newer = !before || (row.speed_up !== null) > (before.speed_up !== null) || ((row.speed_up !== null) === (before.speed_up !== null) && row.timed_at >= before.timed_at);
      if (newer) on.set(row.device, row);
      devices.add(row.device);
    }
  }
  const names = [...devices].sort();
  const entries = [...found.values()].filter(({ on }) => matching([...on.values()], filters).length);
  const body = make("tbody");
  const table = make("table", { class: "plain devices", "aria-label": "Committed configs over devices" },
    make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Kernel and key"), names.map((name) => make("th", { scope: "col" }, name)))), body);
  panel.replaceChildren(entries.length ? scrolling("Committed configs over devices", table) : make("p", { class: "empty" }, "No committed config matches."));
  lazily(body, entries, ({ kernel, key, on }) => make("tr", {},
    make("th", { scope: "row" }, make("span", { class: "name" }, kernel), make("span", { class: "muted small" }, key)),
    names.map((name) => {
      const row = on.get(name);
      return make("td", {}, row ? [verdictBadge(row), row.speed_up !== null ? make("b", {}, ` ${speedText(row)}`) : null, make("button", { type: "button", class: "link small", onclick: () => rowDetail(row) }, row.config)] : "–");
    })));
  return `${counted(entries.length, "key")} on ${counted(names.length, "device")}`;
}
