// The live console of a board: text as it comes, never as HTML.
"use strict";
const MOST = 200000; // characters that the page keeps
const MOST_LINES = 5000;
const live = document.getElementById("live");
const state = document.getElementById("console-state");
const lines = []; // each a <div> with its text alone, and its stamp: microseconds on the host's clock
let current = null; // the line that goes on
let kept = 0; // characters
let zero_us = null; // what the seconds before a line count from
const source = new EventSource(live.dataset.address);

function stamp(line) {
  if (line.t_us === null || zero_us === null) return;
  const after = (line.t_us - zero_us) / 1e6;
  line.shown.dataset.at = after.toFixed(Math.abs(after) < 1000 ? 3 : Math.abs(after) < 100000 ? 1 : 0);
}
function begin(t_us, text) {
  const line = { shown: document.createElement("div"), text: document.createTextNode(""), t_us };
  line.shown.className = "line";
  line.shown.append(line.text);
  if (zero_us === null) zero_us = t_us;
  stamp(line);
  add(line, text);
  lines.push(line);
  return line;
}
function add(line, text) {
  line.text.appendData(text);
  kept += text.length;
}
function cut() {
  let gone = 0;
  while (gone < lines.length - 1 && (kept > MOST || lines.length - gone > MOST_LINES)) kept -= lines[gone++].text.length;
  for (const line of lines.splice(0, gone)) line.shown.remove();
  const [first] = lines;
  if (first && kept > MOST) {
    first.text.deleteData(0, kept - MOST);
    kept = MOST;
  }
}
source.addEventListener("text", (event) => {
  const piece = JSON.parse(event.data);
  const follows = live.scrollTop + live.clientHeight >= live.scrollHeight - 20;
  if (piece.t_us) document.dispatchEvent(new CustomEvent("console-text", { detail: piece.t_us }));
  const fresh = document.createDocumentFragment();
  if (piece.lost) {
    fresh.append(begin(null, `[${piece.lost} pieces left out: this viewer was too slow]\n`).shown);
    current = null;
  }
  const parts = piece.text.replaceAll("\r\n", "\n").split(/(?<=\n)/);
  for (const [index, part] of parts.entries()) {
    if (!part) continue;
    if (current) add(current, part);
    else fresh.append((current = begin(piece.lines[index], part)).shown);
    if (part.endsWith("\n")) current = null;
  }
  live.append(fresh);
  cut();
  if (follows) live.scrollTop = live.scrollHeight;
});
// The moments of a boot, from its first one on; one that came already begins the next boot.
const moments = document.getElementById("moments");
let boot = [];
source.addEventListener("moment", (event) => {
  const moment = JSON.parse(event.data);
  if (boot.some((each) => each.name === moment.name) || !boot.length) {
    boot = [];
    moments.replaceChildren();
    zero_us = moment.line_us;
    lines.filter((line) => line.t_us >= zero_us).forEach(stamp);
  }
  boot.push(moment);
  document.dispatchEvent(new CustomEvent("moment", { detail: moment }));
  const after = (moment.t_us - boot[0].t_us) / 1e6;
  const item = moments.appendChild(document.createElement("li"));
  item.textContent = `${moment.name} ${after.toFixed(4)} s ± ${(moment.uncertainty_us / 1000).toFixed(2)} ms`;
});
source.addEventListener("gone", (event) => {
  source.close();
  state.textContent = `The console ended: ${JSON.parse(event.data).error}`;
});
source.addEventListener("error", () => {
  state.textContent = "The connection broke; the browser tries again.";
});
source.addEventListener("open", () => {
  live.replaceChildren();
  lines.length = kept = 0;
  current = zero_us = null;
  boot = [];
  moments.replaceChildren();
  document.dispatchEvent(new CustomEvent("console-open"));
});
