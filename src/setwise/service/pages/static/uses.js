// Written uses, KIND:PARAMETERS[xCOUNT], in forms: their regex, and their words, which come from the service.

export function parsed(text) {
  const [, bare, parameters, count] = /^([a-z-]+:([^x]+))(?:x(\d+))?$/.exec(text);
  return { bare, parameters: parameters.split(",").map(Number), count: Number(count ?? 1) };
}

// How many are left of each written use.
export function counts(left) {
  return new Map(left.map(parsed).map((use) => [use.bare, use.count]));
}
