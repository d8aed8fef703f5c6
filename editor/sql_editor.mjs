// The SQL editor of the Ask page: highlighting, completion of tables and columns, and problems marked at their place.
//
// The editor lives in a shadow root. There CodeMirror adds its styles as constructed style sheets, which the content
// security policy of the pages allows; in the page itself it would add a <style> element, which the policy forbids.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { SQLDialect, sql } from "@codemirror/lang-sql";
import { HighlightStyle, bracketMatching, syntaxHighlighting } from "@codemirror/language";
import { lintKeymap, setDiagnostics } from "@codemirror/lint";
import { Compartment, EditorState } from "@codemirror/state";
import { EditorView, drawSelection, keymap, lineNumbers, tooltips } from "@codemirror/view";
import { tags } from "@lezer/highlight";

const FUNCTIONS = "count sum avg median percentile_cont approx_quantiles stddev variance private_min private_max round coalesce date_trunc extract";

const KEYWORDS = "select from where group by order having limit offset as and or not in is null like ilike between case when then else end distinct on using join left inner cross union all with asc desc over partition rows filter within exists cast interval differential_privacy options true false";
const TYPES = "integer bigint smallint double float decimal numeric text varchar date timestamp boolean";

const DIALECT = SQLDialect.define({
  keywords: KEYWORDS,
  types: TYPES,
  builtin: FUNCTIONS,
  identifierQuotes: "\"`",
  backslashEscapes: false,
});

const COLOURS = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" },
  { tag: [tags.standard(tags.name), tags.function(tags.name)], color: "var(--code-function)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: [tags.comment, tags.lineComment, tags.blockComment], color: "var(--dim)", fontStyle: "italic" },
]);

const LOOKS = EditorView.theme({
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", border: "1px solid var(--line-strong)", borderRadius: "8px", fontSize: "0.9rem" },
  "&.cm-focused": { outline: "3px solid var(--accent)", outlineOffset: "1px" },
  "&.invalid": { borderColor: "var(--alert)", boxShadow: "0 0 0 1px var(--alert)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55", borderRadius: "8px" },
  ".cm-content, .cm-gutter": { minHeight: "210px" },
  ".cm-content": { caretColor: "var(--text)", padding: "10px 0" },
  ".cm-gutters": { backgroundColor: "var(--raised)", color: "var(--dim)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--accent-soft)" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft) !important", outline: "1px solid var(--accent)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "8px", overflow: "hidden", maxWidth: "min(90vw, 520px)" },
  ".cm-tooltip-autocomplete > ul": { fontFamily: "var(--mono)", maxHeight: "14em" },
  ".cm-tooltip-autocomplete > ul > li": { padding: "4px 10px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { color: "inherit", opacity: "0.8", fontStyle: "normal" },
  ".cm-diagnostic": { padding: "8px 12px", whiteSpace: "pre-wrap", overflowWrap: "anywhere" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--alert)" },
  ".cm-diagnosticAction": { display: "block", margin: "6px 0 0", padding: "4px 10px", backgroundColor: "var(--accent)", color: "var(--on-accent)", borderRadius: "6px", font: "600 0.85rem var(--sans)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--alert)", textUnderlineOffset: "3px", backgroundColor: "var(--alert-soft)" },
});

// Returns [from, to] of the part of the statement that a refusal is about. A refusal names a line, or quotes what it is
// about; without either it is about the whole statement.
export function placeOf(text, message) {
  const near = /near '((?:[^']|'')*)', line (\d+)/.exec(message);
  if (near) {
    const lines = text.split("\n");
    const line = Math.min(Number(near[2]), lines.length);
    const start = lines.slice(0, line - 1).reduce((sum, each) => sum + each.length + 1, 0);
    const at = text.indexOf(near[1], start);
    return at >= 0 && near[1] ? [at, at + near[1].length] : [start, start + lines[line - 1].length];
  }
  const said = message.split("; write: ")[0];
  for (const [, quoted] of said.matchAll(/['"`]([^'"`]+)['"`]/g)) {
    const found = new RegExp(`(?<![\\w])${quoted.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}(?![\\w])`, "i").exec(text);
    if (found) return [found.index, found.index + found[0].length];
  }
  return [0, text.length];
}

// Replaces a selection by what is typed. Left to the browser, the new text would get a style attribute, which the content
// security policy refuses and the console reports.
function replaceSelected(event, view) {
  if (event.inputType !== "insertText" || !event.data || view.composing || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type", scrollIntoView: true });
  return true;
}

// Puts an editor before a text area, which keeps the statement and is hidden. `changed` is called as somebody types.
export function editSql(area, label, changed) {
  const host = document.createElement("div");
  host.className = "sql-editor";
  area.before(host);
  area.hidden = true;
  // The form around the editor listens for input. It would clear marks, and so redraw the text, before the editor has
  // read what was typed; `changed` tells it afterwards.
  host.addEventListener("input", (event) => event.stopPropagation());
  const root = host.attachShadow({ mode: "open" });
  const language = new Compartment();
  const view = new EditorView({
    parent: root,
    root,
    state: EditorState.create({
      doc: area.value,
      extensions: [
        lineNumbers(), history(), drawSelection(), bracketMatching(), closeBrackets(), autocompletion(), tooltips({ position: "fixed" }),
        keymap.of([
          { key: "Tab", run: acceptCompletion }, ...closeBracketsKeymap, ...defaultKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap,
        ]),
        language.of(sql({ dialect: DIALECT, upperCaseKeywords: true })),
        EditorView.domEventHandlers({ beforeinput: replaceSelected }),
        syntaxHighlighting(COLOURS), LOOKS, EditorView.lineWrapping,
        EditorView.contentAttributes.of({ "aria-label": label, spellcheck: "false", autocapitalize: "off", autocorrect: "off" }),
        EditorView.updateListener.of((update) => {
          if (!update.docChanged) return;
          area.value = update.state.doc.toString();
          if (update.transactions.some((each) => each.isUserEvent("input") || each.isUserEvent("delete") || each.isUserEvent("undo") || each.isUserEvent("redo") || each.isUserEvent("move"))) changed();
        }),
      ],
    }),
  });
  const editor = {
    get text() { return view.state.doc.toString(); },
    // Replaces the statement; nobody is told, because nobody typed it.
    set text(text) {
      if (text !== editor.text) view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } });
      area.value = text;
    },
    // `tables` maps the name of each table to its columns: their names, kinds and what they may be used for.
    complete(tables, first) {
      const schema = Object.fromEntries(Object.entries(tables).map(([table, columns]) => [table,
        columns.map(({ name, says }) => ({ label: name, type: "property", detail: ` ${says}` }))]));
      view.dispatch({ effects: language.reconfigure(sql({ dialect: DIALECT, upperCaseKeywords: true, schema, defaultTable: first })) });
    },
    insert(text) {
      view.dispatch(view.state.replaceSelection(text), { userEvent: "input" });
      view.focus();
      changed();
    },
    // Marks where a refusal's place is, and offers the statement that it ends with.
    mark(message) {
      const [from, to] = placeOf(editor.text, message);
      const written = message.split("; write: ")[1]?.replace(/\.$/, "");
      const actions = written ? [{ name: "Use the statement that it suggests", apply: () => { editor.text = written; changed(); } }] : [];
      view.dispatch(setDiagnostics(view.state, [{ from, to, severity: "error", message: message.split("; write: ")[0], actions }]));
      view.dom.classList.add("invalid");
      view.contentDOM.setAttribute("aria-invalid", "true");
    },
    clear() {
      view.dispatch(setDiagnostics(view.state, []));
      view.dom.classList.remove("invalid");
      view.contentDOM.removeAttribute("aria-invalid");
    },
    focus() { view.focus(); },
  };
  return editor;
}
