// Copy buttons: <button data-copy="text"> or <button data-copy-from="id of an element">. After copying, the button's
// [data-copy-label] shows the text of data-copied for a moment.
const COPIED_TIMEOUT = 1600; // ms; how long the button shows that the text was copied

export function startCopying(root) {
  root.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-from]");
    if (button) copyFromButton(button, getCopyText(button));
  });
}

function getCopyText(button) {
  const source = button.dataset.copyFrom && document.getElementById(button.dataset.copyFrom);
  return source ? (source.value ?? source.textContent) : (button.dataset.copy ?? "");
}

async function copyFromButton(button, text) {
  await copyText(text);
  showCopied(button);
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyWithTextarea(text); // browsers have no clipboard API on pages without TLS
  }
}

function copyWithTextarea(text) {
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

function showCopied(button) {
  const label = button.querySelector("[data-copy-label]");
  if (!label || button.classList.contains("copied")) return;
  const before = label.textContent;
  button.classList.add("copied");
  label.textContent = button.dataset.copied;
  setTimeout(() => {
    label.textContent = before;
    button.classList.remove("copied");
  }, COPIED_TIMEOUT);
}
