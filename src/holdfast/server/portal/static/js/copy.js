// Buttons that copy: <button data-copy="text"> or <button data-copy-from="id of an element">. The word for "done" is in
// data-copied; it is shown for a moment in the button's [data-word].
const SHOWN = 1600; // ms

export function startCopying(root) {
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (button) copy(button, textOf(button));
  });
}

function textOf(button) {
  const source = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
  return source ? (source.value ?? source.textContent) : (button.dataset.copy ?? "");
}

async function copy(button, text) {
  await copyText(text);
  tell(button);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyOldWay(text); // without TLS, browsers have no clipboard for pages of another machine
  }
}

function copyOldWay(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "visually-hidden";
  document.body.append(area);
  const before = document.activeElement;
  area.select();
  document.execCommand("copy");
  area.remove();
  before?.focus?.();
}

function tell(button) {
  const word = button.querySelector("[data-word]");
  if (!word || button.classList.contains("copied")) return;
  const before = word.textContent;
  button.classList.add("copied");
  word.textContent = button.dataset.copied;
  setTimeout(() => {
    word.textContent = before;
    button.classList.remove("copied");
  }, SHOWN);
}
