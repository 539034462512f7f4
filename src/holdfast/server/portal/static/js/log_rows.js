// Creates the element of a log row. Program output is inserted as text only.
import { parseLine } from "./ansi.js";
import { resolveColours } from "./log_colours.js";

const CLASSES = ["bold", "italic", "underline", "strike"];

/** `style`: the initial style of the line. Returns the element, the style after it, and the number of DOM nodes. */
export function createRow(row, style) {
  const { runs, style: after } = parseLine(row.text, style);
  const element = document.createElement("div");
  element.className = row.isContinued ? "row continued" : "row";
  if (runs.length === 1 && isPlain(runs[0])) element.textContent = runs[0].text;
  else element.append(...runs.map(createRun));
  return { element, style: after, nodes: 2 + 2 * runs.length };
}

function isPlain(run) {
  const { color, background } = resolveColours(run.style);
  return !run.invisible && !color && !background && !CLASSES.some((name) => run.style[name]);
}

function createRun(run) {
  if (isPlain(run)) return document.createTextNode(run.text);
  const element = document.createElement("span");
  element.textContent = run.text;
  if (run.invisible) element.classList.add("invisible");
  for (const name of CLASSES) if (run.style[name]) element.classList.add(`ink-${name}`);
  const { color, background } = resolveColours(run.style);
  if (color) element.style.color = color;
  if (background) element.style.backgroundColor = background;
  return element;
}
