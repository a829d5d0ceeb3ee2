// Plots: drawn by uPlot, again for another theme or width.

const FONT = "12px system-ui, sans-serif";
const RATIOS = [0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.35, 1.5, 1.75, 2, 2.5, 3, 4, 5, 7, 10, 15, 20, 30, 50, 100];
const plots = new Map();

function drawn(place, options, values) {
  const draw = () => {
    plots.get(place)?.destroy();
    if (!place.isConnected) { plots.delete(place); return; }
    plots.set(place, new uPlot({ ...options(), width: place.clientWidth, height: place.clientWidth < 600 ? 220 : 280 }, values, place));
  };
  for (const old of [...plots.keys()]) if (!old.isConnected) { plots.get(old).destroy(); plots.delete(old); }
  draw();
  place.redraw = draw;
  new ResizeObserver(() => {
    const width = place.clientWidth;
    if (width && plots.has(place) && plots.get(place).width !== width) draw();
  }).observe(place);
}

themeListeners.push(() => { for (const place of [...plots.keys()]) place.redraw(); });

const axis = (more) => ({ stroke: colour("muted"), grid: { stroke: colour("line"), width: 1 }, ticks: { stroke: colour("line"), width: 1 }, font: FONT, ...more });

/** An axis for ratios on a logarithmic scale, with marks at round figures. */
const ratioAxis = () => axis({
  size: 60,
  splits: (plot) => {
    const { min, max } = plot.scales.y;
    const apart = Math.log(max / min) * (20 / (plot.bbox.height / devicePixelRatio));
    // The fixed launch's own speed is always marked, others where there is room.
    const marks = [1];
    for (const ratio of RATIOS) if (marks.every((mark) => Math.abs(Math.log(mark / ratio)) >= apart)) marks.push(ratio);
    return marks.filter((mark) => mark >= min && mark <= max).sort((a, b) => a - b);
  },
  filter: (_, marks) => marks,
  values: (_, marks) => marks.map((mark) => `${mark}×`),
});

/** Draw level lines across a plot, such as that of no change and that of the margin. */
function levels(of) {
  return { hooks: { drawAxes: (plot) => {
    const { ctx, bbox } = plot;
    for (const [value, dash, name] of of) {
      const height = plot.valToPos(value, "y", true);
      ctx.save();
      ctx.strokeStyle = colour(name);
      ctx.setLineDash(dash);
      ctx.lineWidth = devicePixelRatio;
      ctx.beginPath();
      ctx.moveTo(bbox.left, height);
      ctx.lineTo(bbox.left + bbox.width, height);
      ctx.stroke();
      ctx.restore();
    }
  } } };
}

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

function samplePlot(place, gate) {
  const [a, b] = [gate.rounds.map((round) => (round[0] + round[3]) / 2), gate.rounds.map((round) => (round[1] + round[2]) / 2)];
  const points = (name, label) => ({ label, stroke: colour(name), width: 1.5, points: { show: true, size: 6, fill: colour(name) }, value: (_, value) => (value === null ? "–" : `${value.toFixed(2)} µs`) });
  drawn(place, () => ({
    scales: { x: { time: false, range: [0, gate.rounds.length + 1] } },
    axes: [axis({ label: "round", labelFont: FONT, size: 30, labelSize: 18 }), axis({ values: (_, marks) => marks.map((mark) => `${+mark.toPrecision(5)} µs`), size: 80 })],
    series: [{ label: "Round" }, points("muted", `A: ${gate.a}`), points("accent", `B: ${gate.b}`)],
    cursor: { y: false, drag: { x: false, y: false } },
  }), [gate.rounds.map((_, at) => at + 1), a, b]);
}
