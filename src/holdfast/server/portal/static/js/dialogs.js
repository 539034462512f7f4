// Asks for confirmation before a form with data-confirm is submitted; buttons with data-open show the dialog of that id.

export function startDialogs(root) {
  root.addEventListener("submit", confirmSubmit, true);
  root.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open)?.showModal();
  });
  root.addEventListener("click", closeMenus);
  root.addEventListener("keydown", closeMenuOnEscape);
  root.addEventListener("click", (event) => event.target.closest("[data-close]")?.closest(".notification")?.remove());
}

// Shows a result at the top of the page, visible at any scroll position. `html` comes from the server.
export function showMessage(html) {
  const messages = document.getElementById("messages");
  messages.innerHTML = html;
  messages.classList.add("sticky");
}

function confirmSubmit(event) {
  const form = event.target;
  const question = event.submitter?.dataset.confirm ?? form.dataset.confirm;
  if (!question || form.dataset.confirmed) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  askConfirmation(question.replace("{name}", getRowName(event.submitter))).then((yes) => {
    if (!yes) return;
    reattachForm(form, event.submitter);
    form.dataset.confirmed = "yes";
    form.requestSubmit(event.submitter);
    delete form.dataset.confirmed;
  });
}

// A refresh may have removed the form or the button while the dialog was open: attach them again, hidden, so that the
// form can be submitted.
function reattachForm(form, button) {
  if (!form.isConnected) document.body.append(hideElement(form));
  if (button && !button.isConnected) form.append(hideElement(button));
}

function hideElement(element) {
  element.hidden = true;
  return element;
}

// In a list, {name} in a question is the name in the button's row.
function getRowName(button) {
  return button?.closest("tr")?.querySelector("a.open")?.textContent ?? "";
}

export function askConfirmation(question) {
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

// Escape closes the open menu and returns the focus to its button.
function closeMenuOnEscape(event) {
  const menu = document.querySelector("details.menu[open]");
  if (event.key !== "Escape" || !menu || document.querySelector("dialog[open]")) return;
  menu.open = false;
  if (menu.contains(event.target)) menu.querySelector("summary").focus();
}
