// The form of a question: which fields there are, what may be chosen, and the request they stand for.
import { element } from "./api.js";
import { counts, parsed } from "./uses.js";

export class Question {
  constructor(form, choices, editor) {
    this.form = form;
    this.choices = choices;
    this.editor = editor;
    this.at = new Proxy({}, { get: (_, name) => form.elements.namedItem(name) }); // a field may be named item
    const wanted = choices.accounts.find((each) => each.account === form.getAttribute("data-account")) ?? choices.accounts[0];
    options(this.at.dataset, choices.datasets.map((each) => [each.name, each.name]), wanted.dataset);
    this.chooseDataset(wanted.account);
  }

  get kind() { return this.at.kind.value; }
  get dataset() { return this.choices.datasets.find((each) => each.name === this.at.dataset.value); }
  get account() { return this.choices.accounts.find((each) => each.account === this.at.account.value); }
  get domain() { return this.at.domain.value.split("\n").map((each) => each.trim()).filter(Boolean); }
  get measured() { return this.kinds("measured").includes(this.kind); }
  // The kinds of questions that have a field, as the service lists them from the parameters of a query.
  kinds(word) { return this.form.getAttribute(`data-${word}`).split(" "); } // a field is named dataset
  // The columns that groups are of.
  get groups() {
    const [first, second] = this.measured ? ["by", "by_second"] : ["item", "second"];
    return [...new Set([this.binned(this.at[first].value), this.at[second].value].filter(Boolean))];
  }

  // A column in the bins that are asked for: `age by 10`, `at by month`, `hour of at`.
  binned(column) {
    const bins = this.at.bins.value.trim();
    if (!column || !bins) return column;
    return /\bof$/.test(bins) ? `${bins} ${column}` : `${column} ${bins.startsWith("by ") ? "" : "by "}${bins}`;
  }

  chooseDataset(account) {
    const { items, values, filters, per_item: perItem, name } = this.dataset;
    const mine = this.choices.accounts.filter((each) => each.dataset === name);
    options(this.at.account, mine.map((each) => [each.account, `${each.account} (${Math.round(100 * each.share_left)} % left)`]), account);
    const grouped = items.map((each) => [each.name, each.name]);
    options(this.at.item, grouped);
    for (const field of ["second", "by_second"]) options(this.at[field], [["", "nothing else"], ...grouped]);
    options(this.at.by, [["", "all together"], ...grouped]);
    options(this.at.value, [["", "users who have it"], ...values.map((each) => [each.name, `sum of ${each.name}`])]);
    options(this.at.summed, values.map((each) => [each.name, each.name]));
    for (const kind of this.kinds("measured")) this.form.querySelector(`input[value="${kind}"]`).disabled = values.length === 0;
    this.proposeSql();
    this.at.where.disabled = filters.length === 0;
    document.getElementById("where-hint").textContent = filters.length
      ? `Such as ${filters[0].name} ${filters[0].example}. You may compare ${filters.map((each) => each.name).join(", ")}, with AND, OR and NOT.`
      : "This dataset has no columns to filter by.";
    this.at.per_item.placeholder = perItem ?? 1;
    this.chooseAccount();
  }

  chooseAccount() {
    const account = this.account;
    const filter = account.kind === "filter";
    this.at.contributions.placeholder = this.dataset.contributions ?? (filter ? "to be found" : "any number");
    document.getElementById("draws").hidden = filter;
    document.getElementById("total").hidden = !filter;
    // The delta that a question of this account has if it states none; one that was typed stays.
    if (this.at.delta.value === (this.proposedDelta ?? this.at.delta.defaultValue)) {
      this.proposedDelta = String(account.question_delta);
      this.at.delta.value = this.proposedDelta;
    }
    const left = counts(account.left);
    const offer = (role) => account.draws.filter((each) => each.role === role)
      .map(({ use, words }) => [use, `${words} (${(left.get(use) ?? 0).toLocaleString("en")} left)`]);
    options(this.at.discover, filter ? [] : offer("discover"), this.at.discover.value);
    options(this.at.counts, filter ? [] : [...offer("counts"), ["", "no counts, labels only"]], this.at.counts.value || undefined);
    const thresholds = offer("threshold").map(([use, says]) => [use, says.replace(/^\S+ at /, "")]); // the label names them
    options(this.at.threshold, filter ? [] : thresholds, this.at.threshold.value);
    this.arrange();
  }

  // Shows the fields that this kind of question has.
  arrange() {
    const { kind } = this;
    this.at.epsilon.disabled = Boolean(this.at.within.value);
    for (const each of this.form.querySelectorAll("[data-for]")) each.hidden = !each.dataset.for.split(" ").includes(kind);
    document.getElementById("summed-says").textContent = this.kinds("clip").includes(kind) ? "Column to add up" : "Column";
    const grouped = this.kinds("grouped").includes(kind) && this.groups.length > 0;
    document.getElementById("more").hidden = !grouped;
    this.at.by_second.closest(".field").hidden = !this.measured || !this.at.by.value;
    this.at.bins.closest(".field").hidden = !grouped;
    const sql = kind === "sql" ? this.at.text.value : "";
    const open = /\bgroup\s+by\b/i.test(sql) || (grouped && this.domain.length === 0);
    const picks = /\b(limit|median|percentile_cont|approx_quantiles)\b/i.test(sql) || this.kinds("picked").includes(kind);
    const draws = { discover: picks, counts: kind !== "quantile", threshold: open };
    for (const each of this.form.querySelectorAll("[data-draw]")) each.hidden = !draws[each.dataset.draw];
  }

  body() {
    const { kind, account, dataset } = this;
    const at = (name) => this.at[name].value.trim();
    const asked = { dataset: dataset.name, account: account.account };
    if (kind === "sql") {
      const spent = /\bwith\s+differential_privacy\s+options\b[^)]*\bepsilon\b/i.test(at("text"));
      return { ...asked, query: { kind, text: at("text") }, ...(spent ? {} : { spend: this.spend() }) };
    }
    const query = { kind };
    const has = (field) => this.kinds(field).includes(kind);
    if (has("k")) query.k = number(at("k"));
    if (has("rows") && at("per_user")) query.per_user = number(at("per_user"));
    if (has("grouped") && this.groups.length) {
      query.item = this.groups.length === 1 ? this.groups[0] : this.groups;
      if (this.domain.length) query.domain = this.domain.map((line) => this.label(line));
      if (at("contributions")) query.contributions = number(at("contributions"));
    }
    if (has("ranked")) {
      if (at("value")) query.value = at("value");
      if (at("per_item")) query.per_item = number(at("per_item"));
    }
    if (this.measured) query.value = at("summed");
    const ends = has("clip") ? ["clip"] : has("bounded") ? ["low", "high"] : [];
    if (ends.length && !ends.some(at)) query.bounds = "auto";
    else for (const end of ends) query[end] = number(at(end));
    if (has("at")) query.at = at("at").includes(",") ? at("at").split(",").map((each) => number(each.trim())) : number(at("at"));
    if (at("where")) query.where = at("where");
    return { ...asked, query, spend: this.spend() };
  }

  spend() {
    const at = (name) => this.at[name].value.trim();
    if (this.account.kind === "filter") {
      const total = { kind: "total", delta: number(at("delta")), counts: at("noise") };
      if (at("within")) return { ...total, within: number(at("within")) }; // the least epsilon is found
      return { ...total, epsilon: number(at("epsilon")) };
    }
    const shown = (name) => !this.form.querySelector(`[data-draw="${name}"]`).hidden;
    const spend = { kind: "draws" };
    if (shown("discover") && at("discover")) spend.discover = at("discover");
    if (shown("counts") && at("counts")) spend.counts = at("counts");
    if (shown("threshold") && at("threshold")) spend.threshold_delta = parsed(at("threshold")).parameters[1];
    return spend;
  }

  // A line of the domain as a label: one value for each column, with a comma between them.
  label(line) {
    const columns = this.groups.map((name) => this.dataset.items.find((each) => each.name === name));
    const values = columns.length === 1 ? [line] : line.split(",").map((each) => each.trim());
    const cells = values.map((value, place) => (columns[place]?.kind === "integer" && /^-?\d+$/.test(value) ? Number(value) : value));
    return columns.length === 1 ? cells[0] : cells;
  }

  // Writes a first SELECT, unless somebody has written their own, and lists examples and the columns beside it.
  proposeSql() {
    const { name, user, items, values, filters } = this.dataset;
    this.examples = examples(this.dataset);
    const [, text] = this.examples[0];
    if (!this.at.text.value || this.at.text.value === this.proposed) this.editor.text = text;
    this.proposed = text;
    options(document.getElementById("example"), [["", "Start from …"], ...this.examples.map(([title]) => [title, title])]);
    const roles = new Map([[user, { kind: "user column", uses: ["count"] }]]);
    for (const [use, columns] of [["group", items], ["measure", values], ["filter", filters]]) {
      for (const each of columns) {
        if (!roles.has(each.name)) roles.set(each.name, { kind: each.kind, uses: [] });
        roles.get(each.name).uses.push(use);
      }
    }
    const tables = { [name]: [...roles].map(([column, { kind, uses }]) => ({ name: column, says: `${kind}: ${uses.join(", ")}` })) };
    for (const [table, columns] of Object.entries(this.dataset.public)) tables[table] = columns.map((each) => ({ name: each.name, says: `${each.kind}: public` }));
    this.editor.complete(tables, name);
    for (const [table, columns] of Object.entries(this.dataset.public)) {
      for (const each of columns) roles.set(`${table}.${each.name}`, { kind: each.kind, uses: ["public, to JOIN"], written: `${quoted(table)}.${quoted(each.name)}` });
    }
    document.getElementById("columns-title").textContent = `Columns of ${name}`;
    document.getElementById("columns").replaceChildren(...[...roles].map(([column, { kind, uses, written }]) => element("li", {},
      element("button", { type: "button", class: "quiet small mono", "data-insert": written ?? quoted(column), title: "Put it into the SELECT" }, column),
      element("span", { class: "dim small" }, `${kind}: ${uses.join(", ")}`))));
  }

  // Puts a name where the cursor is.
  insert(name) { this.editor.insert(name); }

  useExample(place) {
    if (place >= 0) this.editor.text = this.examples[place][1];
  }

  // The field of the form that a problem's field of the request means.
  fieldOf(name) {
    const last = (name ?? "").replace(/\.\d+$/, "").split(".").at(-1); // one of several has its place after it
    const other = { threshold_delta: "threshold", value: this.measured ? "summed" : "value", item: this.measured ? "by" : "item" };
    if (this.kind === "sql" && (name ?? "").startsWith("query")) return this.at.text;
    const found = this.at[other[last] ?? last];
    return found instanceof HTMLElement && !found.closest("[hidden]") ? found : null;
  }
}

function quoted(name) {
  return /^[A-Za-z_]\w*$/.test(name) ? name : `\`${name}\``;
}

// Statements about a dataset that can be asked as they are: a title and a text each.
function examples({ name, user, items, values, filters, public: tables }) {
  const [table, person, first] = [name, user, items[0].name].map(quoted);
  const users = `COUNT(DISTINCT ${person}) AS users`;
  const found = [
    [`Top 10 of ${items[0].name}`, `SELECT ${first}, ${users}\nFROM ${table}\nGROUP BY ${first}\nORDER BY users DESC\nLIMIT 10`],
    ["How many users there are", `SELECT ${users}\nFROM ${table}`],
    [`Users of every ${items[0].name}`, `SELECT ${first}, ${users}\nFROM ${table}\nGROUP BY ${first}`],
  ];
  if (values.length) {
    const value = quoted(values[0].name);
    found.push([`Mean of ${values[0].name} for every ${items[0].name}`, `SELECT ${first}, AVG(${value}) AS average, ${users}\nFROM ${table}\nGROUP BY ${first}`]);
    found.push([`Median of ${values[0].name}`, `SELECT MEDIAN(${value}) AS median\nFROM ${table}`]);
  }
  const time = items.find((each) => ["date", "timestamp", "instant"].includes(each.kind));
  if (time) found.push([`Users of every month of ${time.name}`, `SELECT DATE_TRUNC('month', ${quoted(time.name)}) AS month, ${users}\nFROM ${table}\nGROUP BY month`]);
  if (filters.length) found.push([`Users where ${filters[0].name} ${filters[0].example}`, `SELECT ${users}\nFROM ${table}\nWHERE ${quoted(filters[0].name)} ${filters[0].example}`]);
  const [other, columns] = Object.entries(tables)[0] ?? [];
  const key = columns?.find((each) => items.some((item) => item.name === each.name));
  const shown = columns?.find((each) => each !== key);
  if (key && shown) found.push([`Users by ${other}.${shown.name}`, `SELECT ${quoted(other)}.${quoted(shown.name)}, ${users}\nFROM ${table}\nJOIN ${quoted(other)} USING (${quoted(key.name)})\nGROUP BY 1`]);
  return found;
}

// What cannot be read as a number goes out as it is, for the service to say what is wrong with it.
function number(text) {
  return text === "" || Number.isNaN(Number(text)) ? text : Number(text);
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  if (pairs.some(([value]) => value === chosen)) select.value = chosen;
  select.disabled = pairs.length === 0;
}
