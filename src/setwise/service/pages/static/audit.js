// The page of the audit log: the button that verifies every chain and balance, and the sentence about the result.
import { call, element } from "./api.js";

const form = document.getElementById("verify");
const told = document.getElementById("verified");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  told.replaceChildren(element("p", { class: "empty" }, "Recomputing …"));
  try {
    const found = await call("GET", `/steward/verify?head=${encodeURIComponent(form.elements.head.value.trim())}`);
    const counted = `${found.entries} ${found.entries === 1 ? "entry" : "entries"} in ${found.accounts} ${found.accounts === 1 ? "account" : "accounts"}`;
    const head = element("p", { class: "hint" }, "Head, to be noted outside the ledger: ", element("code", {}, found.head));
    if (found.faults.length === 0) {
      told.replaceChildren(element("p", { class: "good" }, `Nothing is wrong: ${counted} are as they were written.`), head);
    } else {
      const list = element("ul", {}, ...found.faults.slice(0, 100).map((fault) => element("li", {}, fault)));
      told.replaceChildren(element("div", { class: "alert" }, `Something was changed (${counted}):`, list), head);
    }
  } catch (error) {
    told.replaceChildren(element("p", { class: "alert" }, error.message));
  }
  button.disabled = false;
});

document.getElementById("account")?.addEventListener("change", (event) => event.target.form.submit());
