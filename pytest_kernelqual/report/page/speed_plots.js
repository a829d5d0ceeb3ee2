// The plots of committed configs and of the samples of a gate.

/** Draw a bar with ends from one series to another at each point. */
function bounds(upper, lower) {
  return { hooks: { draw: (plot) => {
    const { ctx, data: values } = plot;
    const end = 3 * devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = colour("accent");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    ctx.beginPath();
    values[0].forEach((x, at) => {
      if (values[upper][at] === null) return;
      const [left, top, bottom] = [plot.valToPos(x, "x", true), plot.valToPos(values[upper][at], "y", true), plot.valToPos(values[lower][at], "y", true)];
      ctx.moveTo(left, top); ctx.lineTo(left, bottom);
      for (const height of [top, bottom]) { ctx.moveTo(left - end, height); ctx.lineTo(left + end, height); }
    });
    ctx.stroke();
    ctx.restore();
  } } };
}

function speedPlot(place, rows) {
  const margin = rows[0].margin_pct ?? 2;
  const values = [rows.map((_, at) => at + 1), rows.map((row) => row.interval[1]), rows.map((row) => row.interval[0]), rows.map((row) => row.speed_up)];
  const told = (at) => (at === null ? "–" : `${rows[at].kernel} ${rows[at].key}`);
  drawn(place, () => ({
    scales: { x: { time: false, range: [0, rows.length + 1] }, y: { distr: 3, log: 10, range: (_, low, high) => [low / 1.03, high * 1.03] } },
    axes: [axis({ label: "committed configs, the slowest first", labelFont: FONT, size: 30, labelSize: 18 }), ratioAxis()],
    series: [
      { label: "Config", value: (_, __, ___, at) => told(at) },
      { label: "upper bound", stroke: "transparent", points: { show: false }, value: (_, value) => value?.toFixed(3) ?? "–" },
      { label: "lower bound", stroke: "transparent", points: { show: false }, value: (_, value) => value?.toFixed(3) ?? "–" },
      { label: "speed-up", stroke: colour("accent"), points: { show: true, size: 5, width: 1, fill: colour("accent") }, paths: () => null, value: (_, value) => (value ? `${value.toFixed(3)}×` : "–") },
    ],
    cursor: { y: false, drag: { x: false, y: false } },
    plugins: [levels([[1, [], "muted"], [1 / (1 + margin / 100), [6, 4], "bad-line"]]), bounds(1, 2)],
    legend: { live: true },
    hooks: { ready: [(plot) => plot.over.addEventListener("click", () => { if (plot.cursor.idx !== null) rowDetail(rows[plot.cursor.idx]); })] },
  }), values);
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", `Speed-ups of ${rows.length} committed configs from ${speedText(rows[0])} to ${speedText(rows.at(-1))}`);
}

function samplePlot(place, gate, rounds) {
  const [a, b] = [rounds.map((round) => (round[0] + round[3]) / 2), rounds.map((round) => (round[1] + round[2]) / 2)];
  const points = (name, label) => ({ label, stroke: colour(name), width: 1.5, points: { show: true, size: 6, fill: colour(name) }, value: (_, value) => (value === null ? "–" : `${value.toFixed(2)} µs`) });
  drawn(place, () => ({
    scales: { x: { time: false, range: [0, rounds.length + 1] } },
    axes: [axis({ label: "round", labelFont: FONT, size: 30, labelSize: 18 }), axis({ values: (_, marks) => marks.map((mark) => `${+mark.toPrecision(5)} µs`), size: 80 })],
    series: [{ label: "Round" }, points("muted", `A: ${gate.a}`), points("accent", `B: ${gate.b}`)],
    cursor: { y: false, drag: { x: false, y: false } },
  }), [rounds.map((_, at) => at + 1), a, b]);
}
