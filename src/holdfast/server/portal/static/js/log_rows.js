// A row of a log as an element. What was printed is put there as text and never read as anything else.
import { readLine } from "./ansi.js";
import { coloursOf } from "./log_colours.js";

const CLASSES = ["bold", "italic", "underline", "strike"];

/** `style`: how the line begins. Returns the element, the style after it, and how many nodes it took. */
export function makeRow(row, style) {
  const { runs, style: after } = readLine(row.text, style);
  const element = document.createElement("div");
  element.className = row.goesOn ? "row goes-on" : "row";
  if (runs.length === 1 && isPlain(runs[0])) element.textContent = runs[0].text;
  else element.append(...runs.map(makeRun));
  return { element, style: after, nodes: 2 + 2 * runs.length };
}

function isPlain(run) {
  const { color, background } = coloursOf(run.style);
  return !run.odd && !color && !background && !CLASSES.some((name) => run.style[name]);
}

function makeRun(run) {
  if (isPlain(run)) return document.createTextNode(run.text);
  const element = document.createElement("span");
  element.textContent = run.text;
  if (run.odd) element.classList.add("odd");
  for (const name of CLASSES) if (run.style[name]) element.classList.add(`ink-${name}`);
  const { color, background } = coloursOf(run.style);
  if (color) element.style.color = color;
  if (background) element.style.backgroundColor = background;
  return element;
}
