// An answer: a chart of one statistic as bars or a line with intervals, a table that can be sorted, and a picture.
import { colour, draw, picture, plain, shortened, wrapped } from "./charts.js";

const SERIES = ["setwise", "paper", "batch", "ordered", "plain"];
const NAMES = new Intl.Collator("en", { numeric: true });

// One colour for each value of the column that has fewer of them, when there are colours enough; else one colour.
function series(items) {
  const alone = [{ items, name: null, label: (each) => each.item, mark: (label) => items.some((each) => each.item === label && each.unreliable) }];
  if (items[0].cells?.length !== 2) return alone;
  const values = [0, 1].map((place) => [...new Set(items.map((each) => each.cells[place]))]);
  const place = values[1].length <= values[0].length ? 1 : 0;
  if (values[place].length > SERIES.length) return alone;
  return values[place].map((name) => ({
    name, items: items.filter((each) => each.cells[place] === name), label: (each) => each.cells[1 - place],
  }));
}

function ordered(items, order) {
  if (order === "largest first") return [...items].sort((a, b) => b.count - a.count);
  if (order === "by name") return [...items].sort((a, b) => NAMES.compare(a.item, b.item));
  return items;
}

function intervals(items, grouped) {
  return {
    type: "data", symmetric: false, visible: items.some((each) => each.interval), color: colour("text"), thickness: 1.6, width: grouped ? 3 : 5,
    array: items.map((each) => (each.interval ? each.interval[1] - each.count : 0)),
    arrayminus: items.map((each) => (each.interval ? each.count - each.interval[0] : 0)),
  };
}

function traces(drawn, labels, line, grouped) {
  return drawn.map((one, number) => {
    const values = one.items.map((each) => each.count);
    const places = one.items.map((each) => labels.indexOf(one.label(each)));
    const tone = colour(`series-${SERIES[number]}`);
    return {
      name: plain(shortened(one.name ?? "", 24)),
      ...(line
        ? { type: "scatter", mode: "lines+markers", x: places, y: values, line: { color: tone, width: 2.4 }, marker: { color: tone, size: 7 }, error_y: intervals(one.items, grouped) }
        : { type: "bar", orientation: "h", x: values, y: places, marker: { color: tone, line: { width: 0 } }, error_x: intervals(one.items, grouped) }),
      customdata: one.items.map((each) => [plain(shortened(each.item, 80)), (each.interval ? `${each.interval[0]} to ${each.interval[1]}` : "no interval") + (each.unreliable ? ", unreliable" : "")]),
      hovertemplate: `%{customdata[0]}<br>%{${line ? "y" : "x"}:,} (%{customdata[1]})<extra></extra>`,
    };
  });
}

function chart(place, { name, items }, order, line) {
  const drawn = series(ordered(items, order));
  const labels = [...new Set(drawn.flatMap((one) => one.items.map(one.label)))];
  if (order === "by name") labels.sort(NAMES.compare);
  const grouped = drawn.length > 1 || drawn[0].name !== null;
  const whole = items.every((each) => Number.isInteger(each.count));
  const narrow = place.clientWidth < 480;
  return draw(place, () => {
    const named = labels.map((label) => plain(shortened(label, narrow ? 14 : 32)) + (!narrow && drawn[0].mark?.(label) ? " (unreliable)" : ""));
    const numbers = { title: { text: wrapped(name, narrow ? 22 : line ? 40 : place.clientWidth / 11) }, tickformat: whole ? ",d" : ",", nticks: narrow ? 4 : 8, tickangle: 0 };
    const places = { tickmode: "array", tickvals: labels.map((_, index) => index), ticktext: named, showgrid: false, zeroline: false };
    return [
      traces(drawn, labels, line, grouped),
      {
        height: line ? 380 : Math.max(150, (grouped ? 22 * items.length + 14 * labels.length : 34 * items.length) + 80 + (grouped ? 30 : 0)),
        barmode: "group", bargap: 0.35, bargroupgap: 0.08, hovermode: "closest", showlegend: grouped,
        legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 13 }, traceorder: "normal" },
        xaxis: line ? places : numbers,
        yaxis: line ? { ...numbers, rangemode: "tozero" } : { ...places, autorange: "reversed", ticklabelstandoff: 8 },
      },
    ];
  });
}

// Sorts the rows by a column; a second click turns the order round.
function sortable(table) {
  table?.addEventListener("click", (event) => {
    const button = event.target.closest("[data-sort]");
    if (!button) return;
    const column = Number(button.dataset.sort);
    const head = button.closest("th");
    const falling = head.getAttribute("aria-sort") === "ascending";
    for (const each of table.tHead.rows[0].cells) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", falling ? "descending" : "ascending");
    const key = (row) => row.cells[column].dataset.value;
    const compare = (a, b) => (key(a) !== undefined && key(b) !== undefined ? Number(key(a)) - Number(key(b)) : NAMES.compare(a.cells[column].textContent, b.cells[column].textContent));
    const rows = [...table.tBodies[0].rows].sort(compare);
    table.tBodies[0].append(...(falling ? rows.reverse() : rows));
  });
}

export async function showAnswer(root) {
  sortable(root.querySelector("table.numbers"));
  const place = root.querySelector(".answer-chart");
  if (!place) return;
  const { charts } = JSON.parse(root.querySelector(".answer-data").textContent);
  const chosen = (name) => root.querySelector(`[data-chart="${name}"]${name === "kind" ? ":checked" : ""}`);
  const show = () => chart(place, charts[chosen("statistic")?.selectedIndex ?? 0], chosen("order").value, chosen("kind").value === "line");
  for (const each of root.querySelectorAll("[data-chart]")) {
    each.addEventListener("input", (event) => { event.stopPropagation(); show(); });
  }
  await show();
  const button = root.querySelector("[data-picture]");
  if (button) button.addEventListener("click", () => picture(place, button.dataset.picture));
}
