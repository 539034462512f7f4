// The editor of job files: CodeMirror if it is bundled, else the plain text field of the page.

export function createPlainEditor(field, onChange) {
  field.addEventListener("input", () => onChange(field.value));
  return {
    get text() { return field.value; },
    setText(text) { if (field.value !== text) field.value = text; },
    showProblems(problems) { field.setAttribute("aria-invalid", String(problems.length > 0)); },
    goToLine(line) { selectLine(field, line); },
    focus() { field.focus(); },
  };
}

function selectLine(field, line) {
  const lines = field.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  field.focus();
  field.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
}

// `lib` is vendor/editor.js. The text field stays in the form, hidden, and is submitted.
export function createRichEditor(lib, field, box, onChange, complete) {
  let silent = false;
  const listener = lib.EditorView.updateListener.of((update) => {
    if (update.docChanged && !silent) onChange(update.state.doc.toString());
  });
  const view = new lib.EditorView({ parent: box, doc: field.value, extensions: [...buildExtensions(lib, field, complete), listener] });
  field.hidden = true;
  box.hidden = false;
  return {
    view,
    get text() { return view.state.doc.toString(); },
    setText(text) {
      const changes = findChange(view.state.doc.toString(), text);
      if (!changes) return;
      silent = true;
      view.dispatch({ changes });
      silent = false;
    },
    showProblems(problems) { view.dispatch(lib.setDiagnostics(view.state, problems.filter((problem) => problem.line).map((problem) => toDiagnostic(view.state.doc, problem)))); },
    goToLine(line) {
      const found = view.state.doc.line(Math.min(Math.max(1, line), view.state.doc.lines));
      view.dispatch({ selection: { anchor: found.from, head: found.to }, scrollIntoView: true });
      view.focus();
    },
    focus() { view.focus(); },
  };
}

function buildExtensions(lib, field, complete) {
  const nonce = document.querySelector("meta[name=style-nonce]").content;
  const attributes = { "aria-label": field.labels[0].textContent, "aria-describedby": field.getAttribute("aria-describedby"), spellcheck: "false", translate: "no", autocapitalize: "off", tabindex: "0" };
  return [
    lib.EditorView.cspNonce.of(nonce),
    lib.EditorView.contentAttributes.of(attributes),
    lib.EditorState.tabSize.of(2),
    lib.EditorState.phrases.of(loadPhrases()),
    lib.lineNumbers(), lib.history(), lib.drawSelection(), lib.highlightActiveLine(), lib.indentOnInput(), lib.bracketMatching(),
    lib.highlightSelectionMatches(), lib.lintGutter(),
    lib.yamlLanguage(),
    lib.syntaxHighlighting(lib.HighlightStyle.define(buildHighlightRules(lib.tags))),
    lib.autocompletion({ override: [complete], icons: false }),
    lib.keymap.of([...lib.searchKeymap, ...lib.historyKeymap, lib.indentWithTab, ...lib.defaultKeymap]),
    lib.EditorView.theme(THEME),
  ];
}

// Returns the editor's own texts in the user's language.
function loadPhrases() {
  const phrases = [...document.getElementById("editor-texts").content.querySelectorAll("[data-phrase]")];
  return Object.fromEntries(phrases.map((element) => [element.dataset.phrase, element.textContent]));
}

const buildHighlightRules = (tags) => [
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--run)" },
  { tag: [tags.string, tags.content], color: "var(--text)" },
  { tag: [tags.number, tags.bool, tags.keyword, tags.null], color: "var(--hold)" },
  { tag: [tags.comment, tags.lineComment], color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.punctuation, tags.separator, tags.squareBracket, tags.brace], color: "var(--quiet)" },
  { tag: [tags.labelName, tags.typeName, tags.meta], color: "var(--warn)" },
];

const THEME = {
  "&": { color: "var(--text)", backgroundColor: "var(--surface)", fontSize: ".92rem", border: "1px solid var(--line-strong)", borderRadius: "var(--radius)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "1px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5", overflow: "auto" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-cursor, .cm-dropCursor": { borderLeftColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--sunken)", color: "var(--quiet)", border: "none", borderRight: "1px solid var(--line)" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--run-ground) 45%, transparent)" },
  ".cm-activeLineGutter": { backgroundColor: "var(--run-ground)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--run-ground) !important" },
  ".cm-selectionMatch": { backgroundColor: "var(--warn-ground)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "var(--run-ground)", outline: "1px solid var(--line-strong)" },
  ".cm-tooltip": { backgroundColor: "var(--surface)", color: "var(--text)", border: "1px solid var(--line-strong)", borderRadius: "4px" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--accent)", color: "var(--on-accent)" },
  ".cm-completionDetail": { fontStyle: "normal", color: "inherit", opacity: ".85" },
  ".cm-diagnostic": { padding: ".3rem .6rem", whiteSpace: "pre-wrap", maxWidth: "40rem" },
  ".cm-diagnostic-error": { borderLeft: "4px solid var(--bad)" },
  ".cm-diagnostic-warning": { borderLeft: "4px solid var(--warn)" },
  ".cm-lintRange-error": { backgroundImage: "none", textDecoration: "underline wavy var(--bad)", textUnderlineOffset: "3px" },
  ".cm-lintRange-warning": { backgroundImage: "none", textDecoration: "underline wavy var(--warn)", textUnderlineOffset: "3px" },
  ".cm-panels": { backgroundColor: "var(--sunken)", color: "var(--text)" },
  ".cm-panels input, .cm-panels button": { color: "var(--text)", backgroundColor: "var(--surface)", backgroundImage: "none", border: "1px solid var(--line-strong)" },
};

function toDiagnostic(text, problem) {
  const line = text.line(Math.min(Math.max(1, problem.line), text.lines));
  const indent = /^\s*/.exec(line.text)[0].length;
  return { from: Math.min(line.from + indent, line.to), to: line.to, severity: "error", message: [problem.message, problem.hint].filter(Boolean).join("\n") };
}

// Returns the smallest change between two texts, so that the cursor and the undo history are preserved.
function findChange(before, after) {
  if (before === after) return null;
  let from = 0;
  while (from < before.length && from < after.length && before[from] === after[from]) from += 1;
  let end = 0;
  while (end < before.length - from && end < after.length - from && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return { from, to: before.length - end, insert: after.slice(from, after.length - end) };
}
