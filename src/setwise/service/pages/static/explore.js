// The curves of epsilon and delta below the budget calculator; each bound is asked for on its own, quick ones first.
import "./budget.js";
import { call, debounced, element } from "./api.js";
import { lines } from "./charts.js";
import { digits, raised, small } from "./numbers.js";

const BOUNDS = [
  { id: "paper", name: "Paper’s bound", colour: "series-paper", dash: "dash", symbol: "square" },
  { id: "setwise", name: "Set-wise optimum", colour: "series-setwise", bold: true },
  { id: "ordered", name: "Ordered optimum", colour: "series-ordered", dash: "dashdot", symbol: "diamond" },
  { id: "batch", name: "Batch optimum", colour: "series-batch", dash: "dot", symbol: "triangle-up" },
];
const NOISES = [
  { id: "pure", name: "Any ε-DP count", colour: "series-plain", dash: "dash", symbol: "square" },
  { id: "laplace", name: "Laplace", colour: "series-paper", symbol: "diamond" },
  { id: "gaussian", name: "Gaussian", colour: "series-setwise", bold: true },
];

const GAPS = BOUNDS.filter((each) => each.id === "setwise" || each.id === "ordered");

const controls = document.getElementById("controls");
const status = document.getElementById("status");
const problem = document.getElementById("problem");
const remembered = new Map();
let turn = 0;
let last = Promise.resolve();

function chosen() {
  const number = (id) => Number(document.getElementById(id).value);
  return {
    k: number("k"), share: number("share") / 100,
    epsilon: Number((10 ** number("epsilon")).toPrecision(2)), delta: Number((10 ** number("delta")).toPrecision(2)),
    along: controls.elements.along.value,
  };
}

function showChosen(now) {
  const shown = {
    k: String(now.k), share: `${Math.round(now.share * 100)} %`, epsilon: digits(now.epsilon, 2), delta: small(now.delta),
  };
  for (const [id, text] of Object.entries(shown)) {
    document.getElementById(`${id}-value`).textContent = text;
    document.getElementById(id).setAttribute("aria-valuetext", text);
  }
}

async function curve(which, now) {
  const mixed = BOUNDS.some((each) => each.id === which);
  const asked = new URLSearchParams({
    which, k: now.k, epsilon: now.epsilon, delta: now.delta,
    share: mixed ? now.share : 0, along: mixed ? now.along : "number",
  });
  const address = `/explore/curve?${asked}`;
  if (!remembered.has(address)) remembered.set(address, await call("GET", address));
  return remembered.get(address);
}

function nearest(found, now) {
  const at = now.along === "share" ? now.share : now.k;
  const places = found.x.map((x, place) => [Math.abs(x - at), place]);
  return found.upper[places.sort((a, b) => a[0] - b[0])[0][1]];
}

function showTiles(found, now) {
  const paper = found.paper && nearest(found.paper, now);
  for (const { id } of BOUNDS) {
    const tile = document.querySelector(`[data-tile="${id}"]`);
    if (!found[id]) continue;
    const value = nearest(found[id], now);
    tile.querySelector("[data-value]").textContent = `ε ${raised(value)}`;
    tile.dataset.note ??= tile.querySelector("[data-note]").textContent;
    const saved = paper && id !== "paper" ? ` · ${Math.round(100 * (1 - value / paper))} % lower` : "";
    tile.querySelector("[data-note]").textContent = tile.dataset.note + saved;
    tile.classList.toggle("best", id === "setwise");
  }
}

function showChart(id, series, found, { x, share }) {
  const there = series.filter((each) => found[each.id]);
  lines(document.getElementById(id), there.map((each) => ({ ...each, x: found[each.id].x, y: found[each.id].upper })), {
    x, y: "overall ε", tickformat: share ? ".0%" : undefined,
  });
  const head = element("tr", {}, element("th", { scope: "col" }, x), ...there.map((each) => element("th", { scope: "col", class: "number" }, each.name)));
  const places = there.length ? found[there[0].id].x : [];
  const rows = places.map((at, place) => element("tr", {},
    element("th", { scope: "row" }, share ? `${Math.round(at * 100)} %` : String(at)),
    ...there.map((each) => element("td", { class: "number" }, raised(found[each.id].upper[place], 5)))));
  document.getElementById(`${id}-table`).replaceChildren(
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}

// The optima lie close together: shown as what they are above the batch optimum, with their certified ends. None can lie
// below it, for whoever may choose on the way may also choose up front.
function showGaps(found, { x, share }) {
  if (!found.batch) return;
  const above = (value, place) => 100 * (value / found.batch.upper[place] - 1);
  const series = GAPS.filter((each) => found[each.id]).map((each) => {
    const { upper } = found[each.id];
    const lower = found[each.id].lower.map((value, place) => Math.max(value, found.batch.lower[place]));
    const middle = upper.map((value, place) => above((value + lower[place]) / 2, place));
    return { ...each, x: found[each.id].x, y: middle, half: upper.map((value, place) => above(value, place) - middle[place]) };
  });
  lines(document.getElementById("gap"), series, { x, y: "% above the batch optimum", tickformat: share ? ".0%" : undefined, height: 300 });
}

// Asks for the curves two at a time, quick ones first, and stops when other numbers were chosen meanwhile.
async function fetchAll(now, isLatest, arrived) {
  const waiting = ["paper", "setwise", "pure", "gaussian", "ordered", "laplace", "batch"];
  const next = async () => {
    while (waiting.length && isLatest()) {
      const which = waiting.shift();
      const found = await curve(which, now);
      if (isLatest()) arrived(which, found);
    }
  };
  await Promise.all([next(), next()]);
}

async function show(mine) {
  const isLatest = () => mine === turn;
  if (!isLatest()) return;
  const now = chosen();
  const share = now.along === "share";
  const along = { x: share ? "share of bounded-range uses" : "number of uses", share };
  const found = {};
  try {
    await fetchAll(now, isLatest, (which, ends) => {
      found[which] = ends;
      if (NOISES.some((each) => each.id === which)) showChart("noise", NOISES, found, { x: "number of counts", share: false });
      else {
        showTiles(found, now);
        showChart("bounds", BOUNDS, found, along);
        showGaps(found, along);
      }
    });
    if (!isLatest()) return;
    status.textContent = `Overall epsilon: ${BOUNDS.map((each) => `${each.name} ${raised(nearest(found[each.id], now))}`).join(", ")}.`;
    document.body.dataset.ready = "explore";
  } catch (error) {
    if (!isLatest()) return;
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

// One set of curves at a time: however the sliders move, no more than two requests are on their way.
function refresh() {
  const mine = ++turn;
  const now = chosen();
  showChosen(now);
  problem.hidden = true;
  history.replaceState(null, "", `?${new URLSearchParams({ k: now.k, share: now.share, epsilon: now.epsilon, delta: now.delta, along: now.along })}`);
  last = last.then(() => show(mine));
}

function restore() {
  const given = new URLSearchParams(location.search);
  const set = (id, value) => { if (Number.isFinite(value)) document.getElementById(id).value = value; };
  if (given.has("k")) set("k", Number(given.get("k")));
  if (given.has("share")) set("share", Number(given.get("share")) * 100);
  for (const id of ["epsilon", "delta"]) if (given.has(id)) set(id, Math.log10(Number(given.get(id))));
  if (given.get("along") === "share") controls.elements.along.value = "share";
}

const later = debounced(250, refresh);
controls.addEventListener("input", () => { showChosen(chosen()); later(); });
controls.addEventListener("reset", () => setTimeout(refresh));
controls.addEventListener("submit", (event) => event.preventDefault());
restore();
refresh();
