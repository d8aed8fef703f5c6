// An answer: bars with intervals, and a picture of them.
import { colour, draw, picture, plain, shortened } from "./charts.js";

export async function showAnswer(root) {
  const place = root.querySelector(".answer-chart");
  if (!place) return;
  const { items, measure } = JSON.parse(root.querySelector(".answer-data").textContent);
  const counts = items.map((each) => each.count);
  const above = items.map((each) => (each.interval ? each.interval[1] - each.count : 0));
  const below = items.map((each) => (each.interval ? each.count - each.interval[0] : 0));
  const named = items.map((each) => plain(shortened(each.item, place.clientWidth < 480 ? 14 : 32)));
  const places = items.map((_, place) => place);
  await draw(place, () => [
    [{
      type: "bar", orientation: "h", x: counts, y: places, marker: { color: colour("series-setwise"), line: { width: 0 } },
      error_x: { type: "data", symmetric: false, array: above, arrayminus: below, color: colour("text"), thickness: 1.6, width: 5 },
      customdata: items.map((each) => [plain(shortened(each.item, 80)), each.interval ? `${each.interval[0]} to ${each.interval[1]}` : "no interval"]),
      hovertemplate: "%{customdata[0]}<br>%{x:,} (%{customdata[1]})<extra></extra>",
    }],
    {
      height: Math.max(150, 34 * items.length + 80), bargap: 0.35, hovermode: "closest",
      xaxis: { title: { text: plain(measure) }, tickformat: ",d", nticks: place.clientWidth < 480 ? 4 : 8, tickangle: 0 },
      yaxis: { tickmode: "array", tickvals: places, ticktext: named, autorange: "reversed", showgrid: false, zeroline: false, ticklabelstandoff: 8 },
    },
  ]);
  const button = root.querySelector("[data-picture]");
  if (button) button.addEventListener("click", () => picture(place, button.dataset.picture));
}
