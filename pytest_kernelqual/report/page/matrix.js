// Kernels x candidates: a row for each kernel, a cell for each candidate with the worst of its cases.

/** Add to each kernel of a report what the views need of it: its cells, each with the records of one candidate. */
function prepare(report) {
  for (const kernel of report.kernels) {
    kernel.cells = kernel.candidates.map(() => []);
    kernel.cases.forEach((one, place) => {
      for (const record of one.candidates) kernel.cells[record[0]].push({ record, place });
    });
    kernel.worst = kernel.cells.map((cell) => worstOf(cell.map(({ record }) => record)));
    kernel.states = kernel.cells.map((cell) => new Set(cell.map(({ record }) => stateOf(record))));
    kernel.fails = kernel.worst.filter((record) => record[FLAGS] & FAILS).length;
    kernel.failing = Boolean(kernel.problem) || kernel.cases.some((one) => !one.passed);
    const fixed = new Set(kernel.cases.map((one) => data.outcomes[one.fixed.outcome]).filter((name) => name !== "qualified"));
    kernel.text = [kernel.kernel, kernel.nodeid, kernel.problem, ...kernel.notes, ...[...fixed].map(wordsOf)].join("\n").toLowerCase();
  }
}

/** Return the text by which a candidate is found; made when it is first looked for. */
function cellText(kernel, place) {
  kernel.texts ??= kernel.cells.map((cell, number) => [
    kernel.candidates[number][0], ...cell.map(({ record, place: at }) => `${kernel.cases[at].id}\n${foundBy(record)}\n${record[REASON]}`),
  ].join("\n").toLowerCase());
  return kernel.texts[place];
}

function showMatrix(panel, report, filters) {
  const chips = panel.querySelector(".chips") ?? panel.appendChild(make("div", { class: "chips", role: "group", "aria-label": "Outcomes to show" }));
  fillChips(chips, report, filters);
  const seen = [];
  let cells = 0;
  for (const kernel of report.kernels) {
    const rest = filters.words.filter((word) => !kernel.text.includes(word));
    const shown = kernel.cells.map((_, place) =>
      (!filters.states.size || [...kernel.states[place]].some((state) => filters.states.has(state))) &&
      (!filters.failing || kernel.worst[place][FLAGS] & FAILS) &&
      (!rest.length || holds(cellText(kernel, place), rest)));
    const number = shown.filter(Boolean).length;
    const whole = !rest.length && !filters.states.size && (!filters.failing || kernel.failing);
    if (!number && !whole) continue;
    seen.push({ kernel, shown });
    cells += number;
  }
  let frame = panel.querySelector(".matrix-frame");
  if (!frame) frame = panel.appendChild(make("div", { class: "matrix-frame" }));
  const columns = Math.max(1, ...seen.map(({ kernel }) => kernel.cells.length));
  const body = make("tbody");
  const head = make("tr", {}, make("th", { scope: "col" }, "Kernel"),
    Array.from({ length: columns }, (_, place) => make("th", { scope: "col", class: "ordinal", abbr: `candidate ${place + 1}` }, String(place + 1))), make("th", { scope: "col", class: "rest" }, "Summary"));
  const table = make("table", { role: "grid", class: `matrix ${columns > 24 ? "many" : ""}`, "aria-label": "Kernels by candidates; arrow keys move, Enter opens" }, make("thead", {}, head), body);
  frame.replaceChildren(seen.length ? scrolling("Matrix of kernels and candidates", table) : make("p", { class: "empty" }, "Nothing matches these filters."));
  lazily(body, seen, (entry, place) => matrixRow(entry, columns, place === 0));
  moveByArrows(table);
  return `${counted(seen.length, "kernel")}, ${counted(cells, "candidate")} shown`;
}

function fillChips(chips, report, filters) {
  const counts = new Map();
  for (const kernel of report.kernels) for (const one of kernel.cases) for (const record of one.candidates) {
    const state = stateOf(record);
    counts.set(state, (counts.get(state) ?? 0) + 1);
  }
  const focused = chips.querySelector("button:focus")?.dataset.state;
  chips.replaceChildren(...Object.keys(MARKS).filter((state) => counts.has(state)).map((state) => {
    const [glyph, kind, label] = MARKS[state];
    return make("button", { type: "button", class: "chip", "data-state": state, "aria-pressed": String(filters.states.has(state)), onclick: () => {
      if (!filters.states.delete(state)) filters.states.add(state);
      filters.changed();
    } }, make("span", { class: `mark ${kind}`, "aria-hidden": "true" }, glyph), label, make("span", { class: "count" }, counts.get(state).toLocaleString("en")));
  }));
  if (focused) chips.querySelector(`[data-state="${focused}"]`)?.focus();
}

function matrixRow({ kernel, shown }, columns, first) {
  const told = [counted(kernel.cases.length, "case"), kernel.screen !== null && "a search", kernel.fails && counted(kernel.fails, "failing candidate"), kernel.problem && "did not run"].filter(Boolean).join(" · ");
  const opener = make("button", { type: "button", class: "opener", "aria-expanded": "false", tabindex: first ? 0 : -1 }, make("span", { class: "name" }, kernel.kernel));
  const cells = kernel.worst.map((record, place) => {
    const [glyph, kind, label] = MARKS[stateOf(record)];
    const fails = record[FLAGS] & FAILS;
    const silent = kernel.cells[place].filter((one) => saysNothing(one.record)).length;
    const partly = silent && !saysNothing(record) ? `, not in ${silent} of ${counted(kernel.cells[place].length, "case")}` : "";
    const name = `${kernel.kernel}, ${kernel.candidates[place][0]}: ${label}${partly}${fails ? ", fails" : ""}`;
    return make("td", {
      role: "gridcell", tabindex: -1, "aria-label": name, title: name,
      class: `cell ${shown[place] ? "" : "dim"}`, onclick: () => candidateDetail(kernel, place),
    }, make("span", { class: `mark ${kind} ${fails ? "fails" : ""} ${partly ? "partly" : ""}`, "aria-hidden": "true" }, glyph));
  });
  const rest = columns - cells.length;
  const row = make("tr", { class: kernel.failing ? "failing" : "" },
    make("th", { scope: "row" }, opener, make("span", { class: "muted small" }, told)), cells, rest ? make("td", { colspan: rest }) : null,
    make("td", { class: "rest muted" }, summaryOf(kernel)));
  opener.addEventListener("click", () => {
    const open = opener.getAttribute("aria-expanded") === "true";
    opener.setAttribute("aria-expanded", String(!open));
    if (open) row.nextElementSibling.remove();
    else row.after(make("tr", { class: "inner" }, make("td", { colspan: columns + 2 }, kernelDetail(kernel))));
  });
  return row;
}

/** Count the records of a kernel by outcome, as text. */
function summaryOf(kernel) {
  if (kernel.problem) return kernel.problem;
  const counts = new Map();
  for (const { record } of kernel.cells.flat()) {
    const name = words(data.outcomes[record[OUTCOME]]);
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).map(([name, count]) => `${count} ${name}`).join(", ");
}

/** Let arrow keys, Home and End move through a table of which one cell is reached by Tab. */
function moveByArrows(table) {
  const stops = (row) => [...row.querySelectorAll(":scope > th .opener, :scope > .cell")];
  const go = (target) => {
    if (!target) return;
    for (const other of table.querySelectorAll("tbody [tabindex='0']:is(.opener, .cell)")) other.tabIndex = -1;
    target.tabIndex = 0;
    target.focus();
    target.scrollIntoView({ block: "nearest", inline: "nearest" });
  };
  table.addEventListener("keydown", (event) => {
    const here = event.target.closest(".opener, .cell");
    if (!here) return;
    const row = here.closest("tr");
    const places = stops(row);
    const place = places.indexOf(here);
    const beside = (step) => {
      let other = row;
      do other = other[step]; while (other?.classList.contains("inner"));
      return other && stops(other)[Math.min(place, stops(other).length - 1)];
    };
    const moves = {
      ArrowRight: () => places[place + 1], ArrowLeft: () => places[place - 1],
      ArrowDown: () => beside("nextElementSibling"), ArrowUp: () => beside("previousElementSibling"),
      Home: () => places[0], End: () => places.at(-1),
    };
    if (moves[event.key]) go(moves[event.key]());
    else if (here.matches(".cell") && (event.key === "Enter" || event.key === " ")) here.click();
    else return;
    event.preventDefault();
  });
  table.addEventListener("focusin", (event) => {
    const here = event.target.closest(".opener, .cell");
    if (here && here.tabIndex !== 0) go(here);
  });
}
