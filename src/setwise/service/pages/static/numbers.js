// Numbers as the pages write them: how many digits, and promised numbers rounded up.

export function digits(value, most = 4) {
  return Number(value.toPrecision(most)).toString();
}

// A promise with a few digits, never smaller than it is.
export function raised(value, most = 4) {
  if (!(value > 0) || !Number.isFinite(value)) return String(value);
  const shown = Number(value.toPrecision(most));
  const unit = 10 ** (Math.floor(Math.log10(value)) + 1 - most);
  return (shown >= value ? shown : shown + unit).toPrecision(most);
}

// A delta with three digits, never smaller than it is.
export function small(value) {
  if (value === 0) return "0";
  const shown = Number(value.toExponential(2));
  const unit = 10 ** (Math.floor(Math.log10(value)) - 2);
  return (shown >= value ? shown : shown + unit).toExponential(2).replace(/\.?0*e/, "e");
}
