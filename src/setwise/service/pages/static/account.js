// The odometer over time: a staircase towards the promise.
import { data } from "./api.js";
import { colour, draw, plain, shortened } from "./charts.js";

const place = document.getElementById("odometer");
if (place) {
  const { readings, promise } = data("odometer-data");
  const charges = [0, ...readings.map((each) => each[0])];
  const values = [0, ...readings.map((each) => each[3])];
  const end = Math.max(charges.at(-1) * 1.04, charges.at(-1) + 0.3); // the last step is a step too
  charges.push(end);
  values.push(values.at(-1));
  const says = ["opened", ...readings.map((each) => {
    const at = new Date(each[1] * 1000).toISOString().slice(0, 16).replace("T", " ");
    return `after charge ${each[0]}, ${at} UTC<br>${plain(shortened(each[2], 48))}`;
  }), "now"];
  await draw(place, () => [
    [
      {
        type: "scatter", mode: charges.length > 40 ? "lines" : "lines+markers", x: charges, y: values, text: says, name: "odometer",
        line: { shape: "hv", color: colour("series-setwise"), width: 3 }, marker: { size: [...charges.slice(0, -1).map(() => 7), 0], opacity: 1, line: { width: 0 } }, fill: "tozeroy", fillcolor: `${colour("series-setwise")}22`,
        hovertemplate: "ε ≤ %{y:.4g}<br>%{text}<extra></extra>", cliponaxis: false,
      },
      {
        type: "scatter", mode: "lines", x: [0, end], y: [promise, promise], name: "promise",
        line: { color: colour("series-paper"), dash: "dash", width: 2 }, hovertemplate: "promised: ε ≤ %{y:.4g}<extra></extra>",
      },
    ],
    {
      height: 300, hovermode: "closest", legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 },
      xaxis: { title: { text: "charges" }, range: [0, end], tickformat: "d", tick0: 0, dtick: Math.max(1, Math.ceil(end / 8)) }, yaxis: { title: { text: "ε so far" }, rangemode: "tozero" },
    },
  ]);
  document.body.dataset.ready = "account";
}
