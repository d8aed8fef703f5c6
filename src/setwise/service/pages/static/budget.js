// The budget calculator: how close counts are for a number of questions, or how many questions fit a budget.
import { call, debounced } from "./api.js";
import { lines } from "./charts.js";
import { digits, small } from "./numbers.js";

const form = document.getElementById("budget");
const says = document.getElementById("budget-says");
const problem = document.getElementById("budget-problem");
const SURE = 1.96; // noise scales within which Gaussian noise stays with 95 %
let turn = 0;

function given() {
  const at = (name) => form.elements.namedItem(name).value;
  return { epsilon: Number(at("epsilon")), delta: Number(at("delta")), find: at("find"), questions: Math.round(Number(at("questions"))), within: Number(at("within")), groups: Math.max(1, Math.round(Number(at("groups")))) };
}

// The noise scale of one count that spends the whole budget. Of n counts, each to which a user adds in so many groups, it
// is larger by the root of their product, because Gaussian noise adds up in squares.
async function noiseOfOne({ epsilon, delta }) {
  const usable = delta * (1 - Number(form.getAttribute("data-failures"))); // an account sets the rest aside for failures
  const found = await call("POST", "/api/v1/calibrate", { body: { uses: ["gaussian:?x1"], epsilon, delta: usable, interaction: "adaptive" }, csrf: form.getAttribute("data-csrf") });
  return found.value;
}

function inWords(now, noise) {
  const budget = `ε ${digits(now.epsilon)} at δ ${small(now.delta)}`;
  const each = now.groups === 1 ? "" : ` of histograms in which a user counts towards ${now.groups.toLocaleString("en")} groups`;
  if (now.find === "error") {
    const error = SURE * noise * Math.sqrt(now.questions * now.groups);
    return `${budget} pays for ${now.questions.toLocaleString("en")} questions${each} with counts within about ${digits(error, 3)}.`;
  }
  const fit = Math.floor((now.within / (SURE * noise)) ** 2 / now.groups);
  return fit < 1
    ? `${budget} does not pay for one question${each} with counts within ${digits(now.within)}: a larger ε, or counts within ${digits(SURE * noise * Math.sqrt(now.groups), 3)}, would do.`
    : `${budget} pays for ${fit.toLocaleString("en")} questions${each} with counts within about ${digits(now.within)}.`;
}

async function show() {
  const mine = ++turn;
  const now = given();
  for (const each of form.querySelectorAll("[data-find]")) each.hidden = each.dataset.find !== now.find;
  try {
    const noise = await noiseOfOne(now);
    if (mine !== turn) return;
    problem.hidden = true;
    says.textContent = inWords(now, noise);
    const most = Math.max(10, now.find === "error" ? 2 * now.questions : 2 * (now.within / (SURE * noise)) ** 2 / now.groups);
    const places = Array.from({ length: 25 }, (_, place) => Math.max(1, Math.round((most * (place + 1)) / 25)));
    await lines(document.getElementById("budget-chart"), [{ name: "counts within ±", colour: "series-setwise", bold: true, x: places, y: places.map((n) => SURE * noise * Math.sqrt(n * now.groups)) }],
      { x: "number of questions", y: "counts within ± (95 %)", height: 300 });
  } catch (error) {
    if (mine !== turn) return;
    says.textContent = "";
    problem.textContent = error.message;
    problem.hidden = false;
  }
}

form.addEventListener("input", debounced(250, show));
form.addEventListener("submit", (event) => event.preventDefault());
show();
