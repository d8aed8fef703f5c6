// The chart of a live series: a line over the periods for each of the largest items, with the band of its intervals.
import { data } from "./api.js";
import { colour, draw, plain, shortened } from "./charts.js";

const COLOURS = ["setwise", "paper", "batch", "ordered", "plain"];
const place = document.getElementById("series");

// A band is one closed line: along the upper ends of the intervals, and back along the lower ones.
function band(line, periods, tone) {
  const [low, high] = [0, 1].map((end) => line.intervals.map((interval) => interval[end]));
  return {
    type: "scatter", mode: "lines", x: [...periods, ...periods.toReversed()], y: [...high, ...low.toReversed()],
    fill: "toself", fillcolor: `${tone}33`, line: { width: 0 }, hoverinfo: "skip", showlegend: false,
  };
}

function curve(line, periods, tone) {
  return {
    type: "scatter", mode: periods.length > 60 ? "lines" : "lines+markers", name: plain(shortened(line.item, 32)),
    x: periods, y: line.values, line: { color: tone, width: 2.4 }, marker: { color: tone, size: 6 },
    customdata: line.intervals.map(([low, high]) => `${low.toLocaleString("en")} to ${high.toLocaleString("en")}`),
    hovertemplate: `${plain(shortened(line.item, 80))}: %{y:,} (%{customdata})<extra></extra>`,
  };
}

if (place) {
  const { periods, lines, unit } = data("series-data");
  const tone = (number) => colour(`series-${COLOURS[number]}`);
  await draw(place, () => [
    lines.flatMap((line, number) => [band(line, periods, tone(number)), curve(line, periods, tone(number))]),
    {
      height: 380, hovermode: "x unified",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 13 } },
      xaxis: { type: "date", nticks: place.clientWidth < 480 ? 4 : 8 },
      yaxis: { title: { text: unit }, rangemode: "tozero", tickformat: ",d" },
    },
  ]);
}
document.body.dataset.ready = "series";
