// What is told of one kernel, one candidate, one committed row.

function factTable(facts) {
  return make("table", { class: "facts" }, make("tbody", {}, Object.entries(facts).map(([name, value]) =>
    make("tr", {}, make("th", { scope: "row" }, words(name)), make("td", {}, factValue(value))))));
}

function factValue(value) {
  if (value === null) return "none";
  if (Array.isArray(value)) return value.every((item) => typeof item !== "object") ? value.join(", ") : value.map(factValue);
  if (typeof value === "object") return factTable(value);
  const text = String(value);
  return text.includes("\n") ? make("pre", {}, text) : text;
}

const number = (value) => (typeof value === "number" ? (Number.isInteger(value) ? value.toLocaleString("en") : value.toPrecision(3)) : freeText(value));

// What a record holds beside its outcome is free in form: anything may stand where a list, a number or a text is expected.
const freeText = (value) => (value === null || value === undefined ? "–" : typeof value === "object" ? JSON.stringify(value) : String(value));
const indexText = (value) => (Array.isArray(value) ? `(${value.map(freeText).join(", ")})` : freeText(value));

function mismatchTable(found) {
  const share = (one) => `${number(one.differing)} of ${number(one.elements)} (${number((100 * one.differing) / one.elements)} %)`;
  return plainTable("Outputs that differ",
    ["Output", "Differing", "First at", "Expected", "Got", "Max |difference|", "Max relative", "Max ULP", "NaN or infinite (expected, got)", "Diagnosis"],
    found.map((one) => [
      freeText(one.output), one.note ? freeText(one.note) : share(one), indexText(one.first_index), freeText(one.expected), freeText(one.actual),
      number(one.max_absolute), number(one.max_relative), number(one.max_ulp),
      `${number(one.nonfinite_expected)}, ${number(one.nonfinite_actual)}`, words(freeText(one.diagnosis)),
    ]));
}

function kernelDetail(kernel) {
  const parts = [make("p", { class: "muted" }, make("code", {}, kernel.nodeid))];
  if (kernel.problem) parts.push(make("p", { class: "notice" }, kernel.problem));
  if (kernel.screen !== null) parts.push(make("p", {}, "A search, whose bad candidates are only recorded: ", kernel.screen));
  for (const note of kernel.notes) parts.push(make("p", {}, note));
  for (const one of kernel.cases) for (const line of one.failures) parts.push(make("p", { class: "notice" }, `${one.id}: ${line}`));
  if (kernel.cases.some((one) => one.aside.length)) {
    parts.push(plainTable("Put aside: input sets on which nothing was compared", ["Case", "Profile or probe", "Why"],
      kernel.cases.flatMap((one) => one.aside.map(([profile, why]) => [one.id, profile, why]))));
  }
  if (!kernel.cases.length) return parts;
  const head = make("tr", {}, make("th", { scope: "col" }, "Candidate"), kernel.cases.map((one) => make("th", { scope: "col" }, make("span", { class: "name" }, one.id),
    one.ran_as ? make("span", { class: "muted small" }, `ran as ${configText(one.ran_as)}`) : null,
    one.dead.length ? make("span", { class: "muted small" }, `dead: ${one.dead.join(", ")}`) : null)));
  const fixed = make("tr", {}, make("th", { scope: "row" }, make("button", { type: "button", class: "link", onclick: () => fixedDetail(kernel) }, "fixed launch")), kernel.cases.map(({ fixed: of }) =>
    make("td", {}, badge(data.outcomes[of.outcome]), of.reason ? make("span", { class: "small" }, of.reason) : null,
      of.config ? make("span", { class: "muted small" }, configText(of.config)) : null)));
  const rows = kernel.cells.map((cell, place) => make("tr", {},
    make("th", { scope: "row" }, make("button", { type: "button", class: "link", onclick: () => candidateDetail(kernel, place) }, kernel.candidates[place][0])),
    kernel.cases.map((_, at) => {
      const found = cell.find((each) => each.place === at);
      return make("td", {}, found ? badge(stateOf(found.record), found.record[FLAGS] & FAILS) : "–");
    })));
  parts.push(scrolling(`Candidates and cases of ${kernel.kernel}`, make("table", { class: "plain cases" }, make("thead", {}, head), make("tbody", {}, fixed, rows))));
  return parts;
}

const configText = (config) => Object.entries(config).map(([name, value]) => `${name}=${value}`).join(", ");

/** Return what the launches of a candidate, or of the fixed one (-1), would meet on compile targets. */
function targetTable(one, place) {
  const rows = one.targets.filter(([, of]) => of === place)
    .map(([target, , outcome, reason, resources]) => [target, words(outcome), reason || "–", configText(resources) || "–"]);
  return rows.length ? plainTable("Compile targets", ["Target", "Outcome", "Why", "Takes"], rows) : null;
}

function fixedDetail(kernel) {
  showDetail(`${kernel.kernel}: fixed launch`, kernel.cases.map((one) => {
    const { outcome, oracle, ...facts } = one.fixed;
    return make("section", { class: "of-case" },
      make("h3", {}, one.id), make("p", {}, badge(data.outcomes[outcome])),
      oracle ? plainTable("Against the oracle", ["Output", "Beyond the tolerance", "Worst at", "Expected", "Got", "Max |difference|", "Max relative", "Max ULP"],
        oracle.map((each) => [each.output, `${number(each.beyond)} of ${number(each.elements)}`, each.worst_index ? `(${each.worst_index.join(", ")})` : "–",
          each.expected ?? "–", each.actual ?? "–", number(each.max_absolute), number(each.max_relative), number(each.max_ulp)])) : null,
      targetTable(one, -1), factTable(facts));
  }));
}

/** Return what other reports, such as those of other devices, say of a candidate. */
function elsewhere(kernel, id) {
  const rows = data.reports.flatMap((report) => report.kernels.filter((other) => other !== kernel && other.nodeid === kernel.nodeid)
    .flatMap((other) => other.candidates.flatMap(([name], at) => (name === id ? [[report.environment?.device.name ?? "no device", badge(stateOf(other.worst[at]), other.worst[at][FLAGS] & FAILS), report.name]] : []))));
  return rows.length ? plainTable("In the other reports", ["Device", "Worst of its cases", "Report"], rows) : null;
}

function candidateDetail(kernel, place) {
  const [id] = kernel.candidates[place];
  const sections = [...kernel.cells[place]].sort((a, b) => Number(b.record === kernel.worst[place]) - Number(a.record === kernel.worst[place]))
    .map(({ record, place: at }) => {
      const one = kernel.cases[at];
      const { detail = {}, ...facts } = record[FACTS] ?? {};
      const { mismatches = [], ...rest } = detail;
      const drawn = Array.isArray(mismatches) && mismatches.every((item) => item && typeof item === "object");
      return make("section", { class: "of-case" },
        make("h3", {}, one.id),
        make("p", {}, badge(stateOf(record), record[FLAGS] & FAILS), record[FLAGS] & OWN ? " the fixed launch's own config" : "", record[FLAGS] & SHORT ? " weaker evidence than is required" : ""),
        record[REASON] ? make("p", { class: "reason" }, record[REASON]) : null,
        drawn && mismatches.length ? mismatchTable(mismatches) : null,
        targetTable(one, place),
        Object.keys(facts).length ? factTable(facts) : null,
        Object.keys(rest).length || !drawn ? factTable(drawn ? rest : detail) : null,
        make("p", { class: "muted small" }, make("code", {}, one.nodeid)));
    });
  showDetail(`${kernel.kernel}: ${id}`, elsewhere(kernel, id), sections);
}

function rowDetail(row) {
  const gates = row.gates.map((gate) => {
    const percent = gate.ratio.map((ratio) => `${ratio >= 1 ? "+" : ""}${((ratio - 1) * 100).toFixed(2)}`);
    return [words(gate.gate), words(gate.verdict), `${gate.b} against ${gate.a}`, percent.length ? `${percent[0]} % [${percent.slice(1).join(", ")}]` : "–",
      `${gate.margin_pct} %`, gate.time_us.map((time) => time.toFixed(2)).join(" and ") || "–",
      [gate.method, gate.cache, gate.launches && `${gate.rounds.length} rounds of ${gate.launches} launches`].filter(Boolean).join(", "), gate.reason];
  });
  const ordered = [...row.gates].sort((a, b) => (a.gate === "control") - (b.gate === "control"));
  const plots = ordered.flatMap((gate) => [gate.rounds, ...gate.confirmations].map((rounds, at) => (
    { gate, rounds, title: `Samples: ${words(gate.gate)}${gate.confirmations.length ? `, process ${at + 1}` : ""}`, place: make("div", { class: "plot" }) }
  ))).filter(({ rounds }) => rounds.length);
  showDetail(`${row.kernel} ${row.key} on ${row.device}`,
    make("p", {}, verdictBadge(row), " ", row.evidence ? words(row.evidence) : ""),
    make("p", {}, "Config: ", make("code", {}, row.config)),
    row.reasons.map((reason) => make("p", { class: "reason" }, reason)),
    row.speed_up !== null ? make("p", {}, `Speed-up over the fixed launch: ${speedText(row)} ${rangeText(row)}`) : null,
    make("p", { class: "muted" }, `Bytes of the fixed launch against those stored: ${words(row.production)}.`, row.timed_at ? ` Timed in the run of ${row.timed_at}.` : ""),
    gates.length ? plainTable("Gates", ["Gate", "Verdict", "Arms", "Slower by [bounds]", "Margin", "Median µs", "How", "Why"], gates) : null,
    plots.map(({ title, place }) => [make("h3", {}, title), place]).flat(),
    make("p", { class: "muted small" }, make("code", {}, row.nodeid)));
  for (const { gate, rounds, place } of plots) samplePlot(place, gate, rounds);
}
