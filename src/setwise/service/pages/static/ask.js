// Ask: a preview as one types, then the charge, the answer, and what is left.
import { call, data, debounced, element } from "./api.js";
import { showAnswer } from "./answer.js";
import { digits, raised, small } from "./numbers.js";
import { Question } from "./question.js";
import { counts, parsed } from "./uses.js";

const form = document.getElementById("question");
const told = document.getElementById("preview");
const problem = document.getElementById("problem");
const button = document.getElementById("ask");
const running = document.getElementById("running");
const place = document.getElementById("answer");
const csrf = form?.getAttribute("data-csrf"); // a field named dataset hides form.dataset
const choices = form && data("choices");
const question = form && new Question(form, choices);
let turn = 0;
let key = newKey();
let asking = null;

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${[...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}

function fact(name, ...value) {
  return [element("dt", {}, name), element("dd", {}, ...value)];
}

function chips(uses, words) {
  return uses.map((use, at) => element("span", { class: "chip", title: use }, words[at]));
}

// What is missing for a preview's uses, in words, or null when what is left pays for them.
function missing({ uses, words, left }) {
  const have = counts(left);
  for (const [at, { bare, count }] of uses.map(parsed).entries()) {
    const there = have.get(bare) ?? 0;
    if (count > there) return `Not enough is left: this needs ${words[at]}, and ${there} ${there === 1 ? "is" : "are"} there.`;
  }
  return null;
}

function showPreview(found) {
  const sure = `${Math.round(100 * found.confidence)} %`;
  const cost = element("dd", { class: "chips" }, ...chips(found.uses, found.words));
  const facts = [element("dt", {}, "Costs at most"), cost];
  facts.push(...fact("On its own", element("strong", {}, `ε ≤ ${raised(found.epsilon.upper)}`), ` at δ ${small(found.delta)}`));
  const counted = found.expected_error !== null; // means and quantiles are close in units of their own
  if (!counted) facts.push(...fact("How close", found.why));
  if (counted) facts.push(...fact("A count is off by", element("strong", {}, `about ${digits(found.expected_error, 3)}`)));
  if (counted && found.radius !== null) facts.push(...fact(`With ${sure}`, `by at most ${found.radius.toLocaleString("en")}`));
  if (found.shortfall !== null) facts.push(...fact("A pick misses the best", `by at most ${found.shortfall.toLocaleString("en")}, with ${sure}`));
  if (found.detectable !== null) facts.push(...fact("Found with " + sure, `items whose count is ${found.detectable.toLocaleString("en")} above those left out`));
  facts.push(...fact("Mechanism", found.mechanism));
  const parts = [element("dl", { class: "facts" }, ...facts)];
  const short = question.account.kind === "setwise" ? missing(found) : null;
  if (short) parts.push(element("p", { class: "alert" }, short));
  told.replaceChildren(...parts);
}

function showProblem(error) {
  const field = question.fieldOf(error.field);
  const named = field?.closest("details") ? `${field.labels[0].textContent}: ` : "";
  const lacking = error.status === 402 ? told.querySelector(".alert") : null; // what is missing, in words
  lacking?.remove();
  problem.textContent = lacking ? `Nothing was charged. ${lacking.textContent}` : named + error.message;
  problem.hidden = false;
  if (named) field.closest("details").open = true;
  field?.setAttribute("aria-invalid", "true");
  field?.setAttribute("aria-describedby", "problem");
}

function clearProblem() {
  problem.hidden = true;
  for (const each of form.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
}

async function preview() {
  const mine = ++turn;
  try {
    const found = await call("POST", "/api/v1/preview", { body: question.body(), csrf });
    if (mine === turn) showPreview(found);
  } catch (error) {
    if (mine !== turn) return;
    told.replaceChildren(element("p", { class: "empty" }, "No preview for this."));
    showProblem(error);
  }
  document.body.dataset.ready = "ask";
}

const later = debounced(300, preview);

async function ended(query) {
  for (let pause = 200; query.state === "running"; pause = Math.min(2 * pause, 2000)) {
    asking = query.id;
    document.getElementById("progress").value = query.progress;
    await new Promise((resume) => setTimeout(resume, pause));
    query = await call("GET", `/api/v1/queries/${query.id}`);
  }
  return query;
}

async function refreshAccount() {
  const fresh = await call("GET", `/api/v1/accounts/${encodeURIComponent(question.account.account)}`);
  Object.assign(question.account, fresh);
  for (const option of form.elements.account.options) {
    if (option.value === fresh.account) option.textContent = `${fresh.account} (${Math.round(100 * fresh.share_left)} % left)`;
  }
  question.chooseAccount();
}

async function showAnswerOf(id) {
  const text = await call("GET", `/answers/${id}/panel`, { accept: "text/html" });
  const parsedPanel = new DOMParser().parseFromString(text, "text/html");
  place.replaceChildren(...parsedPanel.body.childNodes);
  place.hidden = false;
  await showAnswer(place);
  place.querySelector("h2").focus();
  place.scrollIntoView({ block: "start", behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
}

async function ask() {
  clearProblem();
  button.disabled = true;
  running.hidden = false;
  document.getElementById("progress").value = 0;
  try {
    const query = await ended(await call("POST", "/api/v1/queries", { body: question.body(), csrf, key }));
    if (query.state === "cancelled") showProblem({ message: "The query was cancelled; ask again to run it at no further charge." });
    else if (query.problem) showProblem({ message: query.problem.detail, status: query.problem.status, field: query.problem.field });
    else {
      key = newKey();
      await showAnswerOf(query.id);
    }
    await refreshAccount();
    if (problem.hidden) await preview();
  } catch (error) {
    showProblem(error);
  }
  asking = null;
  running.hidden = true;
  button.disabled = false;
}

if (form) {
  form.addEventListener("input", (event) => {
    key = newKey();
    ++turn; // what is on its way is of another question
    told.querySelector(".alert")?.remove(); // so is what was missing
    clearProblem();
    if (event.target.name === "dataset") question.chooseDataset();
    else if (event.target.name === "account") question.chooseAccount();
    else question.arrange();
    later();
  });
  document.getElementById("columns").addEventListener("click", (event) => {
    const name = event.target.closest("[data-insert]")?.dataset.insert;
    if (name) question.insert(name);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  document.getElementById("cancel").addEventListener("click", () => asking && call("DELETE", `/api/v1/queries/${asking}`, { csrf }));
  preview();
}
