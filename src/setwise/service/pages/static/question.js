// The form of a question: which fields there are, what may be chosen, and the request they stand for.
import { element } from "./api.js";
import { counts, parsed } from "./uses.js";

export class Question {
  constructor(form, choices) {
    this.form = form;
    this.choices = choices;
    this.at = new Proxy({}, { get: (_, name) => form.elements.namedItem(name) }); // a field may be named item
    const wanted = choices.accounts.find((each) => each.account === form.getAttribute("data-account")) ?? choices.accounts[0];
    options(this.at.dataset, choices.datasets.map((each) => [each.name, each.name]), wanted.dataset);
    this.chooseDataset(wanted.account);
  }

  get kind() { return this.at.kind.value; }
  get dataset() { return this.choices.datasets.find((each) => each.name === this.at.dataset.value); }
  get account() { return this.choices.accounts.find((each) => each.account === this.at.account.value); }
  get domain() { return this.at.domain.value.split("\n").map((each) => each.trim()).filter(Boolean); }

  chooseDataset(account) {
    const { items, values, filters, contributions, per_item: perItem, name } = this.dataset;
    const mine = this.choices.accounts.filter((each) => each.dataset === name);
    options(this.at.account, mine.map((each) => [each.account, `${each.account} (${Math.round(100 * each.share_left)} % left)`]), account);
    options(this.at.item, items.map((each) => [each.name, each.name]));
    options(this.at.value, [["", "users who have it"], ...values.map((each) => [each.name, `sum of ${each.name}`])]);
    options(this.at.summed, values.map((each) => [each.name, each.name]));
    this.form.querySelector('input[value="sum"]').disabled = values.length === 0;
    this.at.where.disabled = filters.length === 0;
    document.getElementById("where-hint").textContent = filters.length
      ? `Such as ${filters[0].name} ${filters[0].example}. You may compare ${filters.map((each) => each.name).join(", ")}, with AND, OR and NOT.`
      : "This data set has no columns to filter by.";
    this.at.contributions.placeholder = contributions ?? "any number";
    this.at.per_item.placeholder = perItem;
    this.chooseAccount();
  }

  chooseAccount() {
    const account = this.account;
    const filter = account.kind === "filter";
    document.getElementById("draws").hidden = filter;
    document.getElementById("total").hidden = !filter;
    const left = counts(account.left);
    const offer = (role) => account.draws.filter((each) => each.role === role)
      .map(({ use, words }) => [use, `${words} (${(left.get(use) ?? 0).toLocaleString("en")} left)`]);
    options(this.at.discover, filter ? [] : offer("discover"), this.at.discover.value);
    options(this.at.counts, filter ? [] : [...offer("counts"), ["", "no counts, labels only"]], this.at.counts.value || undefined);
    options(this.at.threshold, filter ? [] : offer("threshold"), this.at.threshold.value);
    this.arrange();
  }

  // Shows the fields that this kind of question has.
  arrange() {
    const { kind } = this;
    for (const each of this.form.querySelectorAll("[data-for]")) each.hidden = !each.dataset.for.split(" ").includes(kind);
    const open = (kind === "top-k" || kind === "histogram") && this.domain.length === 0;
    const draws = { discover: kind === "top-k", counts: true, threshold: open };
    for (const each of this.form.querySelectorAll("[data-draw]")) each.hidden = !draws[each.dataset.draw];
  }

  body() {
    const { kind, account, dataset } = this;
    const at = (name) => this.at[name].value.trim();
    const query = { kind };
    if (kind === "top-k" || kind === "histogram") {
      query.item = at("item");
      if (kind === "top-k") query.k = number(at("k"));
      if (at("value")) query.value = at("value");
      if (this.domain.length) query.domain = this.domain.map((label) => (this.wholeItem() && /^-?\d+$/.test(label) ? Number(label) : label));
      for (const name of ["contributions", "per_item"]) if (at(name)) query[name] = number(at(name));
    } else if (kind === "count") query.per_user = number(at("per_user"));
    else Object.assign(query, { value: at("summed"), clip: number(at("clip")) });
    if (at("where")) query.where = at("where");
    return { dataset: dataset.name, account: account.account, query, spend: this.spend() };
  }

  spend() {
    const at = (name) => this.at[name].value.trim();
    if (this.account.kind === "filter") return { kind: "total", epsilon: number(at("epsilon")), delta: number(at("delta")), counts: at("noise") };
    const shown = (name) => !this.form.querySelector(`[data-draw="${name}"]`).hidden;
    const spend = { kind: "draws" };
    if (shown("discover") && at("discover")) spend.discover = at("discover");
    if (at("counts")) spend.counts = at("counts");
    if (shown("threshold") && at("threshold")) spend.threshold_delta = parsed(at("threshold")).parameters[1];
    return spend;
  }

  wholeItem() { return this.dataset.items.find((each) => each.name === this.at.item.value)?.kind === "integer"; }

  // The field of the form that a problem's field of the request means.
  fieldOf(name) {
    const last = (name ?? "").split(".").at(-1);
    const other = { threshold_delta: "threshold", value: this.kind === "sum" ? "summed" : "value" };
    const found = this.at[other[last] ?? last];
    return found instanceof HTMLElement && !found.closest("[hidden]") ? found : null;
  }
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
