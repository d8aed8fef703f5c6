// Requests to the service (headers, CSRF, idempotency key); an error is told in one sentence, with the field at fault.

export class Problem extends Error {
  constructor(status, detail, field, title) {
    super(sentence(detail));
    Object.assign(this, { status, field, title });
  }
}

export function sentence(text) {
  const shown = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(shown) ? shown : `${shown}.`;
}

export async function call(method, address, { body, csrf, key, signal, accept } = {}) {
  const headers = { Accept: accept ?? "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (csrf) headers["X-CSRF-Token"] = csrf;
  if (key) headers["Idempotency-Key"] = key;
  let response;
  try {
    response = await fetch(address, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "the service cannot be reached; try again in a moment");
  }
  if (response.status === 401) {
    location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
    throw new Problem(401, "your session has ended; sign in again");
  }
  if (!response.ok) {
    const found = await response.json().catch(() => ({}));
    throw new Problem(response.status, found.detail ?? `the service answered ${response.status}`, found.field, found.title);
  }
  return accept ? response.text() : response.json();
}

export function data(id) {
  return JSON.parse(document.getElementById(id).textContent);
}

export function debounced(milliseconds, action) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => action(...given), milliseconds);
  };
}

// Builds an element from text alone: nothing given here is ever read as HTML.
export function element(name, given = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
