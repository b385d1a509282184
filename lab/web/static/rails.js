// The rails of a board over the last 60 s, with the moments of its console on the same clock.
const SPAN_S = 60;
const place = document.getElementById("rails-live");
const state = document.getElementById("rails-state");
const about = state.textContent;
const marks = []; // moments of the console: seconds on the host's clock, and names
let times = []; // seconds on the host's clock
let watts = []; // of each rail
let names = [];
let plot = null;
let ahead_s = 0; // the host's clock less this page's

const page_s = () => performance.now() / 1000;
function style(name) {
  place.style.color = `var(${name})`; // the property itself is light-dark(), which no canvas knows
  const { color } = getComputedStyle(place);
  place.style.color = "";
  return color;
}
const shown = () => [times.map((each) => each - ahead_s - page_s()), ...watts];

function drawMarks(u) {
  u.ctx.save();
  u.ctx.strokeStyle = u.ctx.fillStyle = style("--soft");
  u.ctx.font = `${11 * devicePixelRatio}px sans-serif`;
  for (const [index, mark] of marks.entries()) {
    const x = u.valToPos(mark.at_s - ahead_s - page_s(), "x", true);
    if (x < u.bbox.left) continue;
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.fillText(mark.name, x + 3, u.bbox.top + (12 + 13 * (index % 4)) * devicePixelRatio);
  }
  u.ctx.restore();
}

function make() {
  if (plot) plot.destroy();
  const axis = { stroke: style("--soft"), grid: { stroke: style("--line"), width: 1 }, ticks: { stroke: style("--line") } };
  plot = new uPlot(
    {
      width: place.clientWidth,
      height: 260,
      scales: { x: { time: false, range: () => [-SPAN_S, 0] } },
      axes: [
        { ...axis, label: "seconds before now" },
        { ...axis, label: "W", size: 60 },
      ],
      series: [
        { label: "s" },
        ...names.map((name, index) => ({
          label: name,
          stroke: style(`--c${index % 5}`),
          dash: index < 5 ? undefined : [4, 3],
          width: 1.5,
          spanGaps: false,
          value: (_u, value) => (value === null || value === undefined ? "no sample" : `${value.toFixed(3)} W`),
        })),
      ],
      legend: { live: true },
      hooks: { draw: [drawMarks] },
    },
    shown(),
    place,
  );
}

function take(event) {
  const piece = JSON.parse(event.data);
  ahead_s = piece.now_ms / 1000 - page_s();
  if (piece.begins || piece.rails.join() !== names.join()) {
    times = [];
    watts = piece.rails.map(() => []);
  }
  for (const [t_ms, ...values] of piece.steps) {
    times.push(t_ms / 1000);
    values.forEach((value, index) => watts[index].push(value));
  }
  const old = piece.now_ms / 1000 - SPAN_S - 1;
  const keep = times.findIndex((each) => each >= old);
  const gone = keep < 0 ? times.length : keep;
  times.splice(0, gone);
  watts.forEach((values) => values.splice(0, gone));
  while (marks.length && marks[0].at_s < old) marks.shift();
  const total = watts.reduce((sum, values) => sum + (values.at(-1) ?? 0), 0);
  state.textContent = piece.reason || `${about} Now ${total.toFixed(3)} W in all.`;
  place.dataset.steps = times.length;
  if (piece.rails.join() !== names.join()) {
    names = piece.rails;
    place.classList.toggle("idle", !names.length); // no axes without a rail
    make();
  }
  plot.setData(shown());
}

let source = null;
function follow() {
  if (document.hidden) {
    if (source) source.close(); // a browser has few connections to a server: a page that nobody sees needs none
    source = null;
  } else if (!source) {
    source = new EventSource(place.dataset.address);
    source.addEventListener("rails", take);
    source.addEventListener("error", () => {
      state.textContent = "The connection broke; the browser tries again.";
    });
  }
}
document.addEventListener("visibilitychange", follow);
document.addEventListener("console-open", () => { marks.length = 0; });
document.addEventListener("moment", (event) => marks.push({ at_s: event.detail.t_us / 1e6, name: event.detail.name }));
make();
new ResizeObserver(() => plot.setSize({ width: place.clientWidth, height: 260 })).observe(place);
follow();
