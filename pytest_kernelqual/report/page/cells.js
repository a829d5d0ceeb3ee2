// Outcomes, evidence and verdicts as marks that differ by glyph and word, not by colour alone.

const MARKS = {
  identical_binary: ["≡", "strong", "qualified: identical binary"],
  identical_order: ["=", "firm", "qualified: identical order"],
  identical_bytes: ["✓", "fair", "qualified: identical bytes"],
  interpreted: ["i", "meant", "qualified: interpreted only"],
  qualified: ["•", "fair", "qualified"],
  within_tolerance: ["~", "doubt", "within tolerance"],
  mismatch: ["≠", "bad", "mismatch"],
  baseline_suspect: ["!", "bad", "baseline suspect"],
  nondeterministic: ["?", "bad", "nondeterministic"],
  incomplete_write: ["□", "bad", "incomplete write"],
  out_of_bounds_write: ["»", "bad", "out-of-bounds write"],
  fault: ["✗", "bad", "fault"],
  timeout: ["T", "warn", "timeout"],
  out_of_resources: ["R", "warn", "out of resources"],
  compile_error: ["C", "warn", "compile error"],
  launch_error: ["L", "warn", "launch error"],
  unsupported: ["–", "quiet", "unsupported"],
  not_run: ["·", "quiet", "not run"],
};
// A record: place of its candidate, outcome, evidence, flags, reason and, where there are any, facts.
const OUTCOME = 1, EVIDENCE = 2, FLAGS = 3, REASON = 4, FACTS = 5;
const FAILS = 1, OWN = 2, SHORT = 4;

let data;

/** Return the name of the mark of a record: its evidence where it qualified, else its outcome. */
function stateOf([, outcome, evidence]) {
  const name = data.outcomes[outcome];
  return name === "qualified" && evidence >= 0 ? data.evidence[evidence] : name;
}

/** Return the words by which an outcome, evidence or verdict is found: its name, and what the page calls it. */
const wordsOf = (name) => `${name} ${words(name)} ${MARKS[name]?.[2] ?? ""}`;

/** Return the words by which a record is found. */
const foundBy = (record) => `${wordsOf(data.outcomes[record[OUTCOME]])} ${wordsOf(stateOf(record))}${record[FLAGS] & FAILS ? " fails" : ""}`;

function badge(state, failing = false) {
  const [glyph, kind, label] = MARKS[state];
  const told = failing ? "fails" : "";
  return make("span", { class: `badge ${kind}` }, make("span", { "aria-hidden": "true" }, glyph), ` ${label}`, told && ` · ${told}`);
}

function verdictBadge(row) {
  const kind = row.verdict === "ok" ? "good" : !row.passed ? "bad" : row.verdict === "not_timed" ? "quiet" : "doubt";
  const glyph = { good: "✓", bad: "✗", quiet: "·", doubt: "?" }[kind];
  return make("span", { class: `badge ${kind}` }, make("span", { "aria-hidden": "true" }, glyph), ` ${words(row.verdict)}`);
}

/** Tell whether nothing was found out of a candidate, so that other cases say more of it. */
const saysNothing = (record) => ["unsupported", "not_run"].includes(data.outcomes[record[OUTCOME]]) && !(record[FLAGS] & FAILS);

/** Return the worst record of several: failing ones first, then by severity of the outcome, then by the weakest evidence. */
function worstOf(all) {
  const telling = all.filter((record) => !saysNothing(record));
  const records = telling.length ? telling : all;
  const rank = (record) => [
    record[FLAGS] & FAILS ? 0 : 1, data.severity.indexOf(data.outcomes[record[OUTCOME]]), record[EVIDENCE],
  ];
  return records.reduce((worst, record) => {
    const [a, b] = [rank(record), rank(worst)];
    const differs = a.findIndex((value, place) => value !== b[place]);
    return differs >= 0 && a[differs] < b[differs] ? record : worst;
  });
}

/** Draw an interval against the fixed launch (1.0) and the margin, on a logarithmic scale that all rows share. */
function intervalBar(row, [least, most]) {
  const place = (value) => `${(100 * Math.log(Math.min(Math.max(value, least), most) / least)) / Math.log(most / least)}%`;
  const bar = make("span", { class: "interval", "aria-hidden": "true" });
  const add = (kind, left, right = null) => {
    const part = make("span", { class: kind });
    part.style.left = place(left);
    if (right !== null) part.style.width = `max(3px, calc(${place(right)} - ${place(left)}))`;
    bar.append(part);
  };
  if (row.margin_pct !== null) add("beyond", least, 1 / (1 + row.margin_pct / 100));
  add("one", 1);
  add(`range ${row.passed ? "" : "bad"}`, ...row.interval);
  add("estimate", row.speed_up);
  return bar;
}

const speedText = (row) => (row.speed_up === null ? "" : `${row.speed_up.toFixed(3)}×`);
const rangeText = (row) => (row.interval ? `[${row.interval.map((bound) => bound.toFixed(3)).join(", ")}]` : "");
