// The live console of a board: text as it comes, never as HTML.
"use strict";
const MOST = 200000; // characters that the page keeps
const live = document.getElementById("live");
const state = document.getElementById("console-state");
const text = live.appendChild(document.createTextNode(""));
const source = new EventSource(live.dataset.address);

source.addEventListener("text", (event) => {
  const piece = JSON.parse(event.data);
  const follows = live.scrollTop + live.clientHeight >= live.scrollHeight - 20;
  if (piece.t_us) document.dispatchEvent(new CustomEvent("console-text", { detail: piece.t_us }));
  const lost = piece.lost ? `\n[${piece.lost} pieces left out: this viewer was too slow]\n` : "";
  text.appendData(lost + piece.text.replaceAll("\r\n", "\n"));
  if (text.length > MOST) text.deleteData(0, text.length - MOST);
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
  text.deleteData(0, text.length);
});
