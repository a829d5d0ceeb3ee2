// The page of reports: filters, views, and what fails.

const VIEWS = ["failures", "matrix", "speed", "devices"];

start((read) => {
  data = read;
  data.reports.forEach(prepare);
  const filters = { words: [], states: new Set(), failing: false, report: 0, changed: () => show() };
  let view = null;

  const show = () => {
    const panel = byId(`panel-${view}`);
    const report = data.reports[filters.report];
    const told = {
      failures: () => showFailures(panel, failing, filters),
      matrix: () => showMatrix(panel, report, filters),
      speed: () => showSpeed(panel, report, filters),
      devices: () => showDevices(panel, data.reports, filters),
    }[view]();
    byId("status").textContent = told;
    const counts = { failures: failing.length, matrix: report.kernels.length, speed: rowsOf(report).length, devices: devices.size };
    for (const name of VIEWS) byId(`tab-${name}`).querySelector(".count").textContent = counts[name].toLocaleString("en");
    byId("failing-only").parentElement.hidden = view === "failures";
    byId("report-label").hidden = data.reports.length < 2 || !["matrix", "speed"].includes(view);
  };
  const open = (name) => {
    view = name;
    for (const other of VIEWS) {
      byId(`panel-${other}`).hidden = other !== name;
      byId(`tab-${other}`).setAttribute("aria-selected", String(other === name));
      byId(`tab-${other}`).tabIndex = other === name ? 0 : -1;
    }
    show();
  };

  const failing = failuresOf(data.reports);
  const devices = new Set(data.reports.flatMap(rowsOf).map((row) => row.device));
  for (const name of VIEWS) byId(`tab-${name}`).addEventListener("click", () => { history.replaceState(null, "", `#${name}`); open(name); });
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = VIEWS[(VIEWS.indexOf(view) + step + VIEWS.length) % VIEWS.length];
    byId(`tab-${next}`).focus();
    byId(`tab-${next}`).click();
    event.preventDefault();
  });

  const search = byId("search");
  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => { filters.words = search.value.toLowerCase().split(/\s+/).filter(Boolean); show(); }, 80);
  });
  byId("failing-only").addEventListener("change", (event) => { filters.failing = event.target.checked; show(); });
  byId("reset").addEventListener("click", () => {
    search.value = "";
    byId("failing-only").checked = false;
    filters.words = [];
    filters.failing = false;
    filters.states.clear();
    show();
  });
  const choice = byId("report");
  data.reports.forEach((report, place) => choice.append(make("option", { value: place }, `${report.environment?.device.name ?? "no device"} · ${report.name}`)));
  choice.addEventListener("change", () => { filters.report = Number(choice.value); show(); });

  const asked = location.hash.slice(1);
  open(VIEWS.includes(asked) ? asked : data.reports.some((report) => report.failing) ? "failures" : "matrix");
});

/** Return everything that fails, the most telling first: the session, what did not run, fixed launches, candidates, committed rows. */
function failuresOf(reports) {
  const found = [];
  reports.forEach((report) => {
    const add = (order, kernel, where, what, mark, why, detail, more = () => "") => found.push({ order, report, kernel, where, what, mark, why, detail, more });
    for (const problem of report.problems) add(-1, "kernelqual::session", "", "the run as a whole", null, problem, null);
    for (const kernel of report.kernels) {
      if (kernel.problem) add(0, kernel.kernel, "", "declaration", null, kernel.problem, null);
      for (const one of kernel.cases) {
        if (one.passed) continue;
        const fixed = data.outcomes[one.fixed.outcome];
        if (fixed !== "qualified") add(1, kernel.kernel, one.id, "fixed launch", fixed, one.fixed.reason ?? "", null);
        else for (const line of one.failures) add(2, kernel.kernel, one.id, "case", null, line, null);
      }
      kernel.cells.forEach((cell, place) => {
        const failing = cell.filter(({ record }) => record[FLAGS] & FAILS);
        if (!failing.length) return;
        const cases = failing.map(({ place: at }) => kernel.cases[at].id);
        add(3, kernel.kernel, cases.length > 1 ? `${cases[0]} and ${cases.length - 1} more` : cases[0], kernel.candidates[place][0],
          stateOf(kernel.worst[place]), failing[0].record[REASON], () => candidateDetail(kernel, place), () => cellText(kernel, place));
      });
    }
    for (const row of rowsOf(report)) if (!row.passed) add(4, row.kernel, row.key, row.config, row, row.reasons.at(-1) ?? "", () => rowDetail(row), () => row.text);
  });
  return found.sort((a, b) => a.order - b.order);
}

/** Return the text by which a failure is found; made when it is first looked for. */
function failureText(entry) {
  const mark = entry.mark === null ? "fails" : typeof entry.mark === "string" ? wordsOf(entry.mark) : wordsOf(entry.mark.verdict);
  entry.text ??= [entry.kernel, entry.where, entry.what, mark, entry.why, entry.more()].join("\n").toLowerCase();
  return entry.text;
}

function showFailures(panel, all, filters) {
  const entries = filters.words.length ? all.filter((entry) => holds(failureText(entry), filters.words)) : all;
  const body = make("tbody");
  const several = data.reports.length > 1;
  const titles = [several && "Report", "Kernel and candidate", "Outcome", "Why"].filter(Boolean);
  const table = make("table", { class: "plain failures", "aria-label": "Failures" }, make("thead", {}, make("tr", {}, titles.map((title) => make("th", { scope: "col" }, title)))), body);
  const none = all.length ? "No failure matches this search." : data.reports.some((report) => report.failing) ? "The report has no case, and proves nothing." : "Nothing fails.";
  panel.replaceChildren(entries.length ? scrolling("Failures", table) : make("p", { class: "empty" }, none));
  const mark = (given) => (given === null ? make("span", { class: "badge bad" }, "✗ fails") : typeof given === "string" ? badge(given) : verdictBadge(given));
  lazily(body, entries, (entry) => make("tr", {},
    several ? make("td", {}, entry.report.environment?.device.name ?? "", make("span", { class: "muted small" }, entry.report.name)) : null,
    make("th", { scope: "row" }, make("span", { class: "name" }, entry.kernel),
      entry.detail ? make("button", { type: "button", class: "link small", onclick: entry.detail }, entry.what) : make("span", { class: "small" }, entry.what),
      make("span", { class: "muted small" }, entry.where)),
    make("td", {}, mark(entry.mark)), make("td", { class: "reason" }, entry.why)));
  return `${counted(entries.length, "failure")} shown`;
}
