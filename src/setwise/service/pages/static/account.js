// The page of an account: the odometer over time, a staircase towards the promise.
import { data } from "./api.js";
import { colour, draw, plain, shortened } from "./charts.js";
import { raised } from "./numbers.js";

const place = document.getElementById("odometer");

function utc(seconds) {
  return new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ");
}

// Places along the bottom, and the end of the last step: it is a step too.
function along(readings, what) {
  if (what === "time") {
    const times = readings.map((each) => each[1]);
    const span = Math.max(times.at(-1) - times[0], 60);
    const ends = [times[0] - 0.06 * span, ...times, times.at(-1) + 0.06 * span].map(utc);
    return { x: ends, axis: { title: { text: "time (UTC)" }, type: "date", range: [ends[0], ends.at(-1)], nticks: 5 } };
  }
  const last = readings.at(-1)[0];
  const end = Math.max(last * 1.04, last + 0.3);
  const axis = { title: { text: "charges" }, type: "linear", range: [0, end], tickformat: "d", tick0: 0, dtick: Math.max(1, Math.ceil(end / 8)) };
  return { x: [0, ...readings.map((each) => each[0]), end], axis };
}

async function show({ readings, promise }, what) {
  const { x, axis } = along(readings, what);
  const values = [0, ...readings.map((each) => each[3])];
  const says = ["opened", ...readings.map((each) => `after charge ${each[0]}, ${utc(each[1]).slice(0, 16)} UTC<br>${plain(shortened(each[2], 48))}`)];
  await draw(place, () => [
    [
      {
        type: "scatter", mode: readings.length > 40 ? "lines" : "lines+markers", name: "odometer",
        x, y: [...values, values.at(-1)], text: [...says, "now"], cliponaxis: false,
        line: { shape: "hv", color: colour("series-setwise"), width: 3 }, fill: "tozeroy", fillcolor: `${colour("series-setwise")}22`,
        marker: { size: [...values.map(() => 7), 0], opacity: 1, line: { width: 0 } },
        customdata: [...values, values.at(-1)].map((each) => raised(each)),
        hovertemplate: "ε ≤ %{customdata}<br>%{text}<extra></extra>",
      },
      {
        type: "scatter", mode: "lines", x: [x[0], x.at(-1)], y: [promise, promise], name: "promise",
        line: { color: colour("series-paper"), dash: "dash", width: 2 }, customdata: [promise, promise].map((each) => raised(each)),
        hovertemplate: "promised: ε ≤ %{customdata}<extra></extra>",
      },
    ],
    {
      height: 300, hovermode: "closest", legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      xaxis: axis, yaxis: { title: { text: "ε so far" }, rangemode: "tozero" },
    },
  ]);
}

if (place) {
  const found = data("odometer-data");
  for (const choice of document.querySelectorAll("input[name=along]")) {
    choice.addEventListener("change", () => show(found, choice.value));
  }
  await show(found, "charge");
}
document.body.dataset.ready = "account";
