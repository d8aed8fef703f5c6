// An answer: bars with intervals, in groups where there are two columns, and a picture of them.
import { colour, draw, picture, plain, shortened, wrapped } from "./charts.js";

const SERIES = ["setwise", "paper", "batch", "ordered", "plain"];

// One colour for each value of the column that has fewer of them, when there are colours enough; else one colour.
function series(items) {
  if (items[0].cells?.length !== 2) return [{ items, name: null, label: (each) => each.item }];
  const values = [0, 1].map((place) => [...new Set(items.map((each) => each.cells[place]))]);
  const place = values[1].length <= values[0].length ? 1 : 0;
  if (values[place].length > SERIES.length) return [{ items, name: null, label: (each) => each.item }];
  return values[place].map((name) => ({
    name, items: items.filter((each) => each.cells[place] === name), label: (each) => each.cells[1 - place],
  }));
}

export async function showAnswer(root) {
  const place = root.querySelector(".answer-chart");
  if (!place) return;
  const { items, measure } = JSON.parse(root.querySelector(".answer-data").textContent);
  const drawn = series(items);
  const labels = [...new Set(drawn.flatMap((one) => one.items.map(one.label)))];
  const grouped = drawn.length > 1 || drawn[0].name !== null;
  const whole = items.every((each) => Number.isInteger(each.count));
  const named = labels.map((label) => plain(shortened(label, place.clientWidth < 480 ? 14 : 32)));
  await draw(place, () => [
    drawn.map((one, number) => ({
      type: "bar", orientation: "h", name: plain(shortened(one.name ?? "", 24)),
      x: one.items.map((each) => each.count), y: one.items.map((each) => labels.indexOf(one.label(each))),
      marker: { color: colour(`series-${SERIES[number]}`), line: { width: 0 } },
      error_x: {
        type: "data", symmetric: false, visible: one.items.some((each) => each.interval), color: colour("text"), thickness: 1.6, width: grouped ? 3 : 5,
        array: one.items.map((each) => (each.interval ? each.interval[1] - each.count : 0)),
        arrayminus: one.items.map((each) => (each.interval ? each.count - each.interval[0] : 0)),
      },
      customdata: one.items.map((each) => [plain(shortened(each.item, 80)), each.interval ? `${each.interval[0]} to ${each.interval[1]}` : "no interval"]),
      hovertemplate: "%{customdata[0]}<br>%{x:,} (%{customdata[1]})<extra></extra>",
    })),
    {
      height: Math.max(150, (grouped ? 22 * items.length + 14 * labels.length : 34 * items.length) + 80 + (grouped ? 30 : 0)),
      barmode: "group", bargap: 0.35, bargroupgap: 0.08, hovermode: "closest", showlegend: grouped,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 13 }, traceorder: "normal" },
      xaxis: { title: { text: place.clientWidth < 480 ? wrapped(measure, 22) : plain(measure) }, tickformat: whole ? ",d" : ",", nticks: place.clientWidth < 480 ? 4 : 8, tickangle: 0 },
      yaxis: { tickmode: "array", tickvals: labels.map((_, index) => index), ticktext: named, autorange: "reversed", showgrid: false, zeroline: false, ticklabelstandoff: 8 },
    },
  ]);
  const button = root.querySelector("[data-picture]");
  if (button) button.addEventListener("click", () => picture(place, button.dataset.picture));
}
