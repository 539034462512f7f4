// A question before a form with data-confirm is sent; buttons with data-open show the dialog of that id.

export function startDialogs(root) {
  root.addEventListener("submit", askFirst, true);
  root.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open)?.showModal();
  });
  root.addEventListener("click", closeMenus);
  root.addEventListener("keydown", leaveMenu);
  root.addEventListener("click", (event) => event.target.closest("[data-close]")?.closest(".notification")?.remove());
}

// What came of something, above the page and in sight wherever it is scrolled to. `html` is the server's.
export function say(html) {
  const messages = document.getElementById("messages");
  messages.innerHTML = html;
  messages.classList.add("told");
}

function askFirst(event) {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!question || form.dataset.sure) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  ask(question.replace("{name}", nameOf(event.submitter))).then((yes) => {
    if (!yes) return;
    putBack(form, event.submitter);
    form.dataset.sure = "yes";
    form.requestSubmit(event.submitter);
    delete form.dataset.sure;
  });
}

// The page may have been brought up to date while the question stood there, and what was pressed be gone from it: it is
// still meant.
function putBack(form, button) {
  if (!form.isConnected) document.body.append(hide(form));
  if (button && !button.isConnected) form.append(hide(button));
}

function hide(element) {
  element.hidden = true;
  return element;
}

// In a list, {name} in a question is that of the button's row.
function nameOf(button) {
  return button?.closest("tr")?.querySelector("a.open")?.textContent ?? "";
}

export function ask(question) {
  const dialog = document.getElementById("confirm");
  dialog.querySelector("#confirm-text").textContent = question;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => done(dialog.returnValue === "yes"), { once: true }));
}

function closeMenus(event) {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
}

// Escape closes the menu that is open, and whoever was in it is back where it was opened.
function leaveMenu(event) {
  const menu = document.querySelector("details.menu[open]");
  if (event.key !== "Escape" || !menu || document.querySelector("dialog[open]")) return;
  menu.open = false;
  if (menu.contains(event.target)) menu.querySelector("summary").focus();
}
