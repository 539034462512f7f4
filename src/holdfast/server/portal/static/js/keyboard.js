// Keyboard shortcuts: / search, j k rows, x select, Enter open, g and a letter to navigate, r refresh, ? list of shortcuts.
// A list takes part by <tbody data-rows>, each row by a link with class "open".

const ROUTES = { h: "/", j: "/jobs", r: "/schedules", n: "/jobs/new" };
const GO_TIMEOUT = 1500; // ms between g and the letter
let goPressedAt = 0; // time at which g was pressed; 0: not pressed

export function startKeyboard(root) {
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.type === "search") event.target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (handleKey(event.key)) event.preventDefault();
  });
}

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select");
}

function handleKey(key) {
  if (goPressedAt && Date.now() - goPressedAt < GO_TIMEOUT) {
    goPressedAt = 0;
    if (ROUTES[key]) location.assign(ROUTES[key]);
    return Boolean(ROUTES[key]);
  }
  if (key === "g") goPressedAt = Date.now();
  else if (key === "/") (document.querySelector("main input[type=search]") ?? document.getElementById("search"))?.select();
  else if (key === "?") document.getElementById("help")?.showModal();
  else if (key === "j") moveToRow(1);
  else if (key === "k") moveToRow(-1);
  else if (key === "x") getCurrentRow()?.querySelector("input[type=checkbox]")?.click();
  else if (key === "Enter" && getCurrentRow() && !document.activeElement.matches("a, button, summary")) getCurrentRow().querySelector("a.open")?.click();
  else if (key === "r") document.dispatchEvent(new CustomEvent("portal:refresh"));
  else return false;
  return key !== "Enter";
}

function getCurrentRow() {
  return document.querySelector("[data-rows] > tr.current-row") ?? document.activeElement?.closest("[data-rows] > tr");
}

function moveToRow(step) {
  const rows = [...document.querySelectorAll("[data-rows] > tr")];
  if (!rows.length) return;
  const at = rows.indexOf(getCurrentRow());
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))] ?? rows[0];
  for (const row of rows) row.classList.toggle("current-row", row === next);
  next.querySelector("a.open")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
