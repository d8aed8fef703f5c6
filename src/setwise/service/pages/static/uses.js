// Written uses, KIND:PARAMETERS[xCOUNT], as people say them.
import { digits } from "./numbers.js";

export function parsed(text) {
  const [, kind, parameters, count] = /^([a-z-]+):([^x]+)(?:x(\d+))?$/.exec(text);
  return { bare: `${kind}:${parameters}`, kind, parameters: parameters.split(",").map(Number), count: Number(count ?? 1) };
}

const NOUNS = {
  "pure": ["count", (p) => `ε ${p[0]}`],
  "bounded-range": ["pick", (p) => `ε ${p[0]}`],
  "gaussian": ["Gaussian count", (p) => `σ ${p[0]}`],
  "laplace": ["Laplace count", (p) => `scale ${p[0]}`],
  "discrete-laplace": ["integer Laplace count", (p) => `scale ${p[0]}`],
  "discrete-gaussian": ["integer Gaussian count", (p) => `σ ${p[0]}`],
  "truncated-gaussian": ["truncated Gaussian count", (p) => `σ ${p[0]}`],
  "zcdp": ["zCDP use", (p) => `ρ ${p[0]}${Number(p[2] ?? 0) ? `, δ ${p[2]}` : ""}`],
  "cdp": ["concentrated use", (p) => `μ ${p[0]}, τ ${p[1]}`],
};

function words(use) {
  if (use.kind === "approx") return use.parameters[0] === 0 ? ["threshold", `δ ${digits(use.parameters[1], 6)}`] : ["approximate use", `ε ${digits(use.parameters[0], 6)}, δ ${digits(use.parameters[1], 6)}`];
  const [noun, at] = NOUNS[use.kind] ?? [use.kind, (p) => p.join(", ")];
  return [noun, at(use.parameters.map((each) => digits(each, 6)))];
}

export function inWords(text) {
  const use = parsed(text);
  const [noun, at] = words(use);
  return `${use.count.toLocaleString("en")} ${noun}${use.count === 1 ? "" : "s"} at ${at}`;
}

export function kindInWords(text) {
  return words(parsed(text)).join(" at ");
}

// What is missing for a cost, or null when what is left pays for it.
export function shortOf(cost, left) {
  const have = new Map(left.map(parsed).map((use) => [use.bare, use.count]));
  for (const use of cost.map(parsed)) {
    const there = have.get(use.bare) ?? 0;
    if (use.count > there) return { use, there };
  }
  return null;
}
