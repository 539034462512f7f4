// The editor of job files and the YAML documents under it, as one module for the page that needs them.
export * as yaml from "yaml";
export { autocompletion } from "@codemirror/autocomplete";
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { json } from "@codemirror/lang-json";
export { yaml as yamlLanguage } from "@codemirror/lang-yaml";
export { HighlightStyle, bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
export { lintGutter, setDiagnostics } from "@codemirror/lint";
export { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
export { Compartment, EditorState } from "@codemirror/state";
export { EditorView, drawSelection, highlightActiveLine, keymap, lineNumbers, placeholder } from "@codemirror/view";
export { tags } from "@lezer/highlight";
