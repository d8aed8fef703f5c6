// The page Ask: a preview while one types, then the charge, the answer, polling, and the remaining budget.
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
const editor = form && (await import("./sql_editor.js")).editSql(form.elements.namedItem("text"), "SQL statement", typed);
const question = form && new Question(form, choices, editor);
let turn = 0;
let key = newKey();
let asking = null;
let busy = false;
let payable = true; // whether the account can pay for the question as it was previewed

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

// The registered uses that the account lacks for a preview, as a sentence; null if the account has enough of each.
function missing({ uses, words, left }) {
  const have = counts(left);
  for (const [at, { bare, count }] of uses.map(parsed).entries()) {
    const there = have.get(bare) ?? 0;
    if (count > there) return `Not enough is left: this needs ${words[at]}, and ${there} ${there === 1 ? "is" : "are"} there.`;
  }
  return null;
}

// A message of the service as a sentence with a capital and a full stop; null if there is no message.
function sentence(message) {
  return message ? `${message[0].toUpperCase()}${message.slice(1).replace(/\.$/, "")}.` : null;
}

function showPreview(found) {
  const sure = `${Math.round(100 * found.confidence)} %`;
  const cost = found.alone ?? { epsilon: found.epsilon.upper, delta: found.delta }; // what the answer will state
  const facts = fact("Costs at most", element("strong", {}, `ε ${raised(cost.epsilon)}`), cost.delta ? ` at δ ${small(cost.delta)}` : "");
  const how = [element("dt", {}, "Drawn at most"), element("dd", { class: "chips" }, ...chips(found.uses, found.words))];
  const counted = found.expected_error !== null; // quantiles are close in rank, and means depend on the sizes of groups
  if (counted) how.push(...fact("Mean error", `of ${found.about}: about ${digits(found.expected_error, 3)}, and with ${sure} at most ${found.radius?.toLocaleString("en") ?? "more"}`));
  if (found.shortfall !== null) how.push(...fact("A pick misses the best", `by at most ${found.shortfall.toLocaleString("en")}, with ${sure}`));
  const above = found.above_rank ? ` above that of rank ${found.above_rank.toLocaleString("en")}` : "";
  if (found.detectable !== null) how.push(...fact("Found with " + sure, `items whose ${found.threshold} is at least ${found.detectable.toLocaleString("en")}${above}`));
  how.push(...fact("Mechanism", found.mechanism), ...fact("Why", found.why));
  const open = told.querySelector("details")?.open ?? false;
  const details = element("details", open ? { open: "" } : {}, element("summary", {}, "How it is done"), element("dl", { class: "facts" }, ...how));
  const parts = [element("p", { class: "in-words" }, `${found.accuracy}.`), element("dl", { class: "facts" }, ...facts), details];
  const short = (question.account.kind === "setwise" ? missing(found) : null) ?? sentence(found.shortage);
  payable = !short;
  arrangeButton();
  if (short) parts.push(element("p", { class: "alert" }, short));
  if (found.warning) parts.push(element("p", { class: "warning" }, sentence(`warning: ${found.warning}`)));
  told.replaceChildren(...parts);
}

function showProblem(error) {
  const field = question.fieldOf(error.field);
  const named = field?.closest("details") ? `${field.labels[0].textContent}: ` : "";
  const lacking = error.status === 402 ? told.querySelector(".alert") : null; // what is missing, in words
  lacking?.remove();
  const [says, written] = error.message.split("; write: "); // a refused SELECT may end with one that can be asked
  problem.textContent = lacking ? `Nothing was charged. ${lacking.textContent}` : named + (written ? `${says}. This can be asked:` : says);
  if (written && !lacking) {
    const text = written.replace(/\.$/, "");
    const use = element("button", { type: "button", class: "small" }, "Use it");
    use.addEventListener("click", () => { editor.text = text; typed(); });
    problem.append(element("code", { class: "secret" }, text), use);
  }
  problem.hidden = false;
  if (named) field.closest("details").open = true;
  field?.setAttribute("aria-invalid", "true");
  field?.setAttribute("aria-describedby", "problem");
  if (question.kind === "sql" && (error.field ?? "").startsWith("query")) editor.mark(error.message);
}

function clearProblem() {
  problem.hidden = true;
  editor?.clear();
  for (const each of form.querySelectorAll("[aria-invalid]")) each.removeAttribute("aria-invalid");
}

async function preview() {
  const mine = ++turn;
  try {
    const found = await call("POST", "/api/v1/preview", { body: question.body(), csrf });
    if (mine === turn) showPreview(found);
  } catch (error) {
    if (mine !== turn) return;
    payable = error.status !== 402;
    arrangeButton();
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

// What is on the page answers an earlier question, and would be read as the answer to a question that was refused.
function clearAnswer() {
  place.hidden = true;
  place.replaceChildren();
}

// Called as soon as a query has ended: the answer must not stand beside "Running" while the next preview is computed.
function stopWaiting() {
  asking = null;
  running.hidden = true;
}

function arrangeButton() {
  button.disabled = busy || !payable;
}

async function ask() {
  clearProblem();
  clearAnswer();
  busy = true;
  arrangeButton();
  running.hidden = false;
  document.getElementById("progress").value = 0;
  try {
    const query = await ended(await call("POST", "/api/v1/queries", { body: question.body(), csrf, key }));
    stopWaiting();
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
  stopWaiting();
  busy = false;
  arrangeButton();
}

// What somebody changed makes another question of it: another key, and another preview.
function changed() {
  key = newKey();
  ++turn; // what is on its way is of another question
  told.querySelector(".alert")?.remove(); // so is what was missing
  payable = true;
  arrangeButton();
  clearProblem();
}

function typed() {
  changed();
  question.arrange();
  later();
}

if (form) {
  form.addEventListener("input", (event) => {
    if (event.target.id === "example") return;
    changed();
    if (event.target.name === "dataset") question.chooseDataset();
    else if (event.target.name === "account") question.chooseAccount();
    else question.arrange();
    later();
  });
  document.getElementById("example").addEventListener("change", (event) => {
    question.useExample(event.target.selectedIndex - 1);
    typed();
  });
  document.getElementById("columns").addEventListener("click", (event) => {
    const name = event.target.closest("[data-insert]")?.dataset.insert;
    if (name) question.insert(name);
  });
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
  document.getElementById("cancel").addEventListener("click", () => asking && call("DELETE", `/api/v1/queries/${asking}`, { csrf }));
  preview();
}
