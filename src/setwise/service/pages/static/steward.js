// The forms of a steward (datasets, accounts, people, tokens): each is sent to the API, the result stands beside it.
import { call, debounced, element } from "./api.js";
import { raised, small } from "./numbers.js";
import "./page.js";

const root = document.getElementById("steward");
const csrf = root.dataset.csrf;

const READ = {
  list: (text) => text.split(",").map((each) => each.trim()).filter(Boolean),
  // What has no = is sent without a value, so that it is refused and not left out; a path may hold further ones.
  pairs: (text) => Object.fromEntries(READ.list(text).map((each) => {
    const [name, ...rest] = each.split("=");
    return [name.trim(), rest.join("=").trim()];
  })),
  words: (text) => text.split(/\s+/).filter(Boolean),
  number: (text) => (Number.isNaN(Number(text)) ? text : Number(text)),
  choice: (text) => text === "true",
  separator: (text) => (text === "tab" ? "\t" : text),
  days: (text) => Date.now() / 1000 + 86400 * Number(text),
};

// A field may be named dataset, which hides form.dataset.
function setting(form, name) {
  return form.getAttribute(`data-${name}`);
}

function fields(form) {
  return [...form.elements].filter((each) => each.name && !("picker" in each.dataset) && !each.closest("[hidden]") && (each.type !== "radio" || each.checked));
}

function asked(form) {
  const body = {};
  let address = setting(form, "address");
  for (const each of fields(form)) {
    const kind = each.dataset.kind;
    if (kind === "address") address = address.replace(`{${each.name}}`, encodeURIComponent(each.value));
    else if (each.value !== "") {
      const [name, inner] = each.name.split(".");
      const value = kind ? READ[kind](each.value) : each.value;
      body[name] = inner ? { ...body[name], [inner]: value } : value;
    }
  }
  return { address, body };
}

async function send(form) {
  const told = form.querySelector(".result");
  for (const each of form.elements) each.removeAttribute?.("aria-invalid");
  try {
    const { address, body } = asked(form);
    const method = setting(form, "method");
    const made = await call(method, address, { body: method === "DELETE" ? undefined : body, csrf });
    told.className = "result good";
    if (setting(form, "secret")) {
      told.replaceChildren("The token, shown this once:", element("code", { class: "secret" }, made.secret));
    } else {
      told.textContent = `${setting(form, "done")} Showing it …`;
      setTimeout(() => location.reload(), 700);
    }
  } catch (error) {
    told.className = "result alert";
    told.textContent = error.message;
    const wrong = error.field && (form.elements.namedItem(error.field) ?? form.elements.namedItem(error.field.split(".")[0]));
    if (wrong?.setAttribute) { wrong.setAttribute("aria-invalid", "true"); wrong.focus(); }
  }
}

function showFor(form) {
  const kind = form.elements.namedItem("kind")?.value;
  if (!kind) return;
  for (const each of form.querySelectorAll("[data-for]")) each.hidden = !each.dataset.for.split(" ").includes(kind);
}

for (const form of document.querySelectorAll("form.api")) {
  form.addEventListener("submit", (event) => { event.preventDefault(); send(form); });
  form.addEventListener("change", () => showFor(form));
  showFor(form);
}

// Opening an account: sliders write the draws, and the epsilon that they promise together is told beside them.
const says = document.getElementById("account-says");
const opening = says?.closest("form");
let promise = 0;

function slide() {
  const at = (id) => Number(document.getElementById(id).value);
  const [tops, counts, each] = [at("account-tops"), at("account-counts"), at("account-each")];
  for (const told of opening.querySelectorAll("output")) told.textContent = at(told.getAttribute("for"));
  const draws = [[`bounded-range:${each}`, 10 * tops], [`pure:${each}`, 10 * tops + counts], ["approx:0,1e-9", tops]];
  opening.elements.uses.value = draws.filter(([, count]) => count > 0).map(([use, count]) => `${use}x${count}`).join(" ");
}

async function sayPromise() {
  const mine = ++promise;
  const { body } = asked(opening);
  let told = `Everything asked from it promises ε ≤ ${body.epsilon} at δ ${body.delta}.`;
  if (body.kind === "setwise") {
    try {
      const uses = [...(body.uses ?? [])];
      if (body.wallet) uses.push(`gaussian:${1 / body.wallet}`);
      if (body.wallet && body.failure) uses.push(`approx:0,${body.failure}`);
      const found = await call("POST", "/api/v1/compose", { body: { uses, delta: body.delta }, csrf });
      told = `Everything asked from it, in any order, promises ε ≤ ${raised(found.epsilon.upper)} at δ ${small(found.delta.upper)}: ${found.words.join(", ")}.`;
    } catch (error) {
      told = error.message;
    }
  }
  if (mine === promise) says.textContent = told;
}

if (opening) {
  const later = debounced(300, sayPromise);
  opening.addEventListener("input", (event) => { if (event.target.type === "range") slide(); later(); });
  opening.closest("details").addEventListener("toggle", sayPromise);
}

// Registering a table: its files are offered, and of its columns who is the user and what may be asked is ticked.
const picker = document.getElementById("column-picker");
const registering = picker?.closest("form");
const ROLES = [["items", "Group by"], ["values", "Add up"], ["filters", "Filter"]];
let described = "";

function pickColumn(role, name, picked) {
  const field = registering.elements.namedItem(role);
  if (role === "user") field.value = name;
  else field.value = [...READ.list(field.value).filter((each) => each !== name), ...(picked ? [name] : [])].join(", ");
}

function setType(name, kind) {
  const field = registering.elements.namedItem("types");
  const types = READ.pairs(field.value);
  delete types[name];
  if (kind !== "text") types[name] = kind;
  field.value = Object.entries(types).map((pair) => pair.join("=")).join(", ");
}

function columnRow({ name, kind }, isText) {
  const tick = (role, label, type) => {
    const box = element("input", { type, name: type === "radio" ? "picked-user" : `picked-${role}-${name}`, "aria-label": `${label}: ${name}`, "data-picker": "" });
    box.addEventListener("change", () => pickColumn(role, name, box.checked));
    return element("td", { "data-label": label }, box);
  };
  let shown = kind;
  if (isText && kind === "text") { // a CSV file has text alone; say what its cells are
    shown = element("select", { "aria-label": `Kind of ${name}`, "data-picker": "" }, ...picker.dataset.kinds.split(" ").map((each) => element("option", {}, each)));
    shown.value = "text";
    shown.addEventListener("change", () => setType(name, shown.value));
  }
  return element("tr", {}, element("th", { scope: "row" }, name), element("td", { "data-label": "Kind" }, shown),
    tick("user", "User", "radio"), ...ROLES.map(([role, label]) => tick(role, label, "checkbox")));
}

async function describeTable() {
  const told = document.getElementById("column-says");
  const { body } = asked(registering);
  const parameters = new URLSearchParams({ table: body.table ?? "", engine: body.engine, csv: JSON.stringify(body.csv ?? {}) });
  if (!body.table || described === String(parameters)) return;
  described = String(parameters);
  try {
    const columns = await call("GET", `/steward/columns?${parameters}`);
    if (described !== String(parameters)) return;
    const isText = columns.every((each) => each.kind === "text");
    const heads = ["Column", "Kind", "User", ...ROLES.map(([, label]) => label)];
    picker.replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Columns of the table" }, element("table", { class: "stacked" },
      element("thead", {}, element("tr", {}, ...heads.map((head) => element("th", { scope: "col" }, head)))),
      element("tbody", {}, ...columns.map((each) => columnRow(each, isText))))));
    picker.hidden = false;
    told.className = "hint";
    told.textContent = "Tick who is the user and what may be asked; the fields below follow.";
  } catch (error) {
    picker.hidden = true;
    told.className = "alert";
    told.textContent = error.message;
  }
}

if (registering) {
  // Leaving a field by pressing the button must not move the button before the press has ended.
  const describeSoon = debounced(400, describeTable);
  registering.closest("details").addEventListener("toggle", async () => {
    const files = document.getElementById("dataset-files");
    if (!files.children.length) files.replaceChildren(...(await call("GET", "/steward/tables")).map((each) => element("option", { value: each })));
  });
  registering.addEventListener("change", (event) => {
    if (/^(table|engine|csv\.)/.test(event.target.name)) describeSoon();
  });
}

for (const button of document.querySelectorAll("[data-revoke]")) {
  button.addEventListener("click", async () => {
    const told = document.getElementById("revoked");
    if (button.dataset.sure !== "yes") {
      button.dataset.sure = "yes";
      button.firstChild.textContent = "Really revoke";
      return;
    }
    try {
      await call("DELETE", button.dataset.revoke, { csrf });
      location.reload();
    } catch (error) {
      told.className = "result alert";
      told.textContent = error.message;
    }
  });
}

for (const place of document.querySelectorAll("[data-joint]")) {
  call("GET", `/api/v1/datasets/${encodeURIComponent(place.dataset.joint)}/joint`).then(
    (found) => {
      const who = found.accounts.length === 1 ? "Its one account promises" : `All ${found.accounts.length} accounts together, should their analysts collude:`;
      place.replaceChildren(`${who} `, element("strong", {}, `ε ≤ ${raised(found.epsilon.upper)}`), ` at δ ${small(found.delta)} `, element("span", { class: "dim" }, `(${found.method})`));
    },
    (error) => { place.textContent = error.message; },
  );
}
document.body.dataset.ready = "steward";
