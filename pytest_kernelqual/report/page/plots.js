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
