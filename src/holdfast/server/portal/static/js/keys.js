// The keyboard: / search, j k rows, x select, Enter open, g then a letter to go, r refresh, ? the list of keys.
// A list takes part by <tbody data-rows>, each row by a link with class "open".

const GO = { h: "/", j: "/jobs", r: "/schedules", n: "/jobs/new" };
let going = 0; // when g was pressed

export function startKeys(root) {
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.target.type === "search") event.target.blur();
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (document.querySelector("dialog[open]")) return;
    if (press(event.key)) event.preventDefault();
  });
}

function isTyping(target) {
  return target.isContentEditable || target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select");
}

function press(key) {
  if (going && Date.now() - going < 1500) {
    going = 0;
    if (GO[key]) location.assign(GO[key]);
    return Boolean(GO[key]);
  }
  if (key === "g") going = Date.now();
  else if (key === "/") (document.querySelector("main input[type=search]") ?? document.getElementById("search"))?.select();
  else if (key === "?") document.getElementById("help")?.showModal();
  else if (key === "j") move(1);
  else if (key === "k") move(-1);
  else if (key === "x") here()?.querySelector("input[type=checkbox]")?.click();
  else if (key === "Enter" && here() && !document.activeElement.matches("a, button, summary")) here().querySelector("a.open")?.click();
  else if (key === "r") document.dispatchEvent(new CustomEvent("portal:refresh"));
  else return false;
  return key !== "Enter";
}

function here() {
  return document.querySelector("[data-rows] > tr.here") ?? document.activeElement?.closest("[data-rows] > tr");
}

function move(step) {
  const rows = [...document.querySelectorAll("[data-rows] > tr")];
  if (!rows.length) return;
  const at = rows.indexOf(here());
  const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))] ?? rows[0];
  for (const row of rows) row.classList.toggle("here", row === next);
  next.querySelector("a.open")?.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}
