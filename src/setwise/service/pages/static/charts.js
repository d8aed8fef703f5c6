// Charts in the colours of page.css, with shortened and wrapped labels; text is escaped, as the library reads HTML.
/* global Plotly */
import { raised } from "./numbers.js";
import "./page.js";

const CONFIG = { displayModeBar: false, responsive: true };
const drawn = new Map();

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function plain(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

export function shortened(text, most = 28) {
  const whole = [...String(text).replace(/\s+/g, " ")];
  return whole.length > most ? `${whole.slice(0, most - 1).join("")}…` : whole.join("");
}

// Lines of about so many characters, for a title of an axis that has little room.
export function wrapped(text, most) {
  const lines = [""];
  for (const word of String(text).split(" ")) {
    if (lines.at(-1) && lines.at(-1).length + word.length >= most) lines.push("");
    lines.push(`${lines.pop()} ${word}`.trim());
  }
  return lines.map(plain).join("<br>");
}

function layout(given) {
  const axis = (own) => ({
    gridcolor: colour("line"), zerolinecolor: colour("line-strong"), linecolor: colour("line-strong"),
    automargin: true, fixedrange: true, ...own, title: { text: "", standoff: 10, font: { size: 13, color: colour("dim") }, ...own.title },
  });
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: colour("sans"), size: 13, color: colour("text") },
    margin: { l: 8, r: 16, t: 8, b: 8 },
    hoverlabel: { bgcolor: colour("surface"), bordercolor: colour("line-strong"), font: { color: colour("text"), family: colour("sans") } },
    ...given,
    xaxis: axis(given.xaxis), yaxis: axis(given.yaxis),
  };
}

// `make` returns the traces and the layout; it is called again when the theme changes.
export function draw(place, make) {
  drawn.set(place, make);
  const [traces, given] = make();
  if (given.height) place.style.height = `${given.height}px`;
  return Plotly.react(place, traces, layout(given), CONFIG);
}

document.addEventListener("themechange", () => {
  for (const [place, make] of drawn) if (place.isConnected) draw(place, make);
});

export function lines(place, series, { x, y, tickformat, height = 380 }) {
  return draw(place, () => [
    series.map((each) => ({
      type: "scatter", mode: "lines+markers", name: each.name, x: each.x, y: each.y,
      line: { color: colour(each.colour), width: each.bold ? 3.5 : 2.2, dash: each.dash ?? "solid" },
      marker: { size: each.bold ? 7 : 5, symbol: each.symbol ?? "circle" },
      error_y: each.half && { type: "data", array: each.half, thickness: 1.2, width: 4 },
      customdata: each.y.map((value) => raised(value)),
      hovertemplate: `${plain(each.name)}: %{customdata}<extra></extra>`,
    })),
    {
      height, hovermode: "x unified",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, font: { size: 13 } },
      xaxis: { title: { text: plain(x) }, tickformat },
      yaxis: { title: { text: plain(y) }, rangemode: "tozero" },
    },
  ]);
}

// The theme for a picture is the page's own; its ground is filled, for a picture may be put anywhere.
export async function picture(place, name) {
  const ground = { paper_bgcolor: colour("surface"), plot_bgcolor: colour("surface") };
  const figure = { data: place.data, layout: { ...place.layout, ...ground, margin: { l: 24, r: 24, t: 24, b: 24 } } };
  const address = await Plotly.toImage(figure, { format: "png", width: 1000, height: Math.max(320, place.offsetHeight), scale: 2 });
  const link = document.createElement("a");
  link.href = address;
  link.download = `setwise-${name}.png`;
  link.click();
}
