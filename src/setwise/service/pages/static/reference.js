// The reference of the API: built from its own description, and each route can be tried as whoever is signed in.
import { element, sentence } from "./api.js";
import "./page.js";

const root = document.getElementById("reference");
const csrf = root.dataset.csrf;

const WHO = { anyone: "anyone", holder: "any token", person: "analysts and stewards", steward: "stewards" };

function who(operation) {
  return WHO[operation["x-access"]];
}

function field(parameter, id) {
  const given = parameter.schema?.examples?.[0] ?? parameter.examples?.[0] ?? parameter.schema?.default ?? "";
  const label = element("label", { for: id }, parameter.name, " ", element("span", { class: "dim" }, `(${parameter.in})`));
  const input = element("input", { id, autocomplete: "off", spellcheck: "false", value: given, "data-name": parameter.name, "data-in": parameter.in });
  if (parameter.required) input.required = true;
  return element("div", { class: "field" }, label, input);
}

function example(operation) {
  const schema = operation.requestBody?.content["application/json"].schema;
  return schema ? JSON.stringify(schema.examples?.[0] ?? {}, null, 2) : null;
}

async function send(form, method, path) {
  const shown = form.querySelector("pre");
  const told = form.querySelector(".result");
  const headers = { Accept: "application/json" };
  const query = new URLSearchParams();
  let address = path;
  for (const each of form.querySelectorAll("[data-name]")) {
    const name = each.dataset.name;
    if (each.dataset.in === "path") address = address.replace(`{${name}}`, encodeURIComponent(each.value));
    else if (each.dataset.in === "header") headers[name] = each.value;
    else if (each.value !== "") query.set(name, each.value);
  }
  const body = form.querySelector("textarea")?.value;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (csrf) headers["X-CSRF-Token"] = csrf;
  told.className = "result";
  told.textContent = "Asking …";
  try {
    const response = await fetch(query.size ? `${address}?${query}` : address, { method, headers, body });
    const text = await response.text();
    told.className = `result ${response.ok ? "good" : "alert"}`;
    told.textContent = `${response.status} ${response.statusText}`;
    shown.hidden = false;
    try { shown.textContent = JSON.stringify(JSON.parse(text), null, 2); } catch { shown.textContent = text; }
  } catch {
    told.className = "result alert";
    told.textContent = sentence("the service cannot be reached; try again in a moment");
  }
}

function route(method, path, operation) {
  const id = `${method}${path.replaceAll(/[^a-z]+/g, "-")}`;
  const form = element("form", { class: "stack" });
  form.append(element("p", {}, operation.description ?? operation.summary ?? ""));
  const fields = (operation.parameters ?? []).map((each, number) => field(each, `${id}-${number}`));
  if (fields.length) form.append(element("div", { class: "row" }, ...fields));
  const body = example(operation);
  if (body !== null) {
    const rows = String(Math.min(16, body.split("\n").length + 1));
    const area = element("textarea", { id: `${id}-body`, rows, spellcheck: "false" });
    area.value = body;
    form.append(element("div", { class: "field" }, element("label", { for: `${id}-body` }, "Body"), area));
  }
  const problems = Object.entries(operation.responses).map(([status, each]) => element("li", {}, element("strong", {}, status), ` ${each.description}`));
  const changes = method !== "get";
  form.append(
    element("details", {}, element("summary", {}, "What it may answer"), element("ul", {}, ...problems)),
    element("p", { class: "result", role: "status" }),
    element("button", { type: "submit", class: changes ? "" : "primary" }, changes ? "Send, for real" : "Send"),
    element("pre", { class: "code", tabindex: "0", role: "region", "aria-label": `Answer of ${method} ${path}`, hidden: "" }),
  );
  form.addEventListener("submit", (event) => { event.preventDefault(); send(form, method.toUpperCase(), path); });
  const title = element("summary", {}, element("code", {}, `${method.toUpperCase()} ${path}`), " ", element("span", { class: "badge stored" }, who(operation)));
  return element("details", { class: "more" }, title, form);
}

async function build() {
  const described = await (await fetch("/api/v1/openapi.json")).json();
  const groups = new Map();
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      if (!groups.has(tag)) groups.set(tag, []);
      groups.get(tag).push(route(method, path, operation));
    }
  }
  root.replaceChildren(...[...groups].map(([tag, routes]) => {
    const id = `tag-${tag.replaceAll(" ", "-")}`;
    return element("section", { class: "card", "aria-labelledby": id }, element("h2", { id }, sentence(tag).slice(0, -1)), ...routes);
  }));
  document.body.dataset.ready = "reference";
}

build().catch(() => { root.replaceChildren(element("p", { class: "alert", role: "alert" }, sentence("the description of the API cannot be read; reload the page"))); });
