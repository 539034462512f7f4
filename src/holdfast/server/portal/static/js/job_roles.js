// The role cards of the form: command, size, image and the other settings of each role.
import { setInputValue, showRows } from "./pair_rows.js";

const getText = (id) => document.getElementById(id).content.textContent.trim();
const cloneTemplate = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);
let cardCount = 0; // cards created so far; makes their ids unique

export function showRoles(box, job, choices) {
  job.roles.forEach((role, index) => {
    const card = box.children[index] ?? box.appendChild(createCard());
    card.dataset.role = role.name;
    card.dataset.named = job.named ? "yes" : "";
    showCard(card, role, job, choices);
  });
  while (box.children.length > job.roles.length) box.lastElementChild.remove();
}

function createCard() {
  const card = cloneTemplate("role-template");
  cardCount += 1;
  card.dataset.number = cardCount;
  for (const field of card.querySelectorAll(".field")) labelField(field, `role${cardCount}-${field.dataset.key}`);
  card.setAttribute("aria-labelledby", (card.querySelector("h2").id = `role${cardCount}-title`));
  const sizes = card.querySelector("[data-sizes]");
  sizes.setAttribute("aria-labelledby", (sizes.parentElement.querySelector("h3").id = `role${cardCount}-sizes`));
  return card;
}

function labelField(field, id) {
  const control = field.querySelector("select, input, textarea");
  const label = field.querySelector(":scope > label");
  if (!control || !label) return;
  control.id = label.htmlFor = id;
  const descriptions = [...field.querySelectorAll(":scope > .help, :scope > .problem")];
  descriptions.forEach((text, index) => (text.id = `${id}-description${index}`));
  for (const input of field.querySelectorAll("select, input, textarea")) input.setAttribute("aria-describedby", descriptions.map((text) => text.id).join(" "));
}

function showCard(card, role, job, choices) {
  card.querySelector("h2").textContent = job.named ? card.dataset.title.replace("{name}", role.name) : card.dataset.alone;
  for (const part of card.querySelectorAll("[data-named]")) part.hidden = !job.named;
  card.querySelector("[data-do=remove-role]").hidden = job.roles.length < 2;
  const prefix = job.named ? `roles${formatStep(role.name)}.` : "";
  for (const field of card.querySelectorAll(".field[data-key]")) field.dataset.path = prefix + field.dataset.key;
  for (const input of card.querySelectorAll("[data-role-bind]")) setInputValue(input, role[input.dataset.roleBind]);
  card.querySelector("textarea").rows = Math.min(16, Math.max(3, role.command.split("\n").length + 1));
  showSizes(card, role, choices);
  showImages(card, role, choices);
  showRows(card.querySelector("[data-pairs]"), document.getElementById("pair-template"), role.env, (row, [, value]) => setInputValue(row.querySelector("[data-pair=value]"), value));
}

// Formats a path step like the server does.
function formatStep(name) {
  return /^[\p{L}\p{N}_$~-]{1,64}$/u.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

// -- sizes

function showSizes(card, role, choices) {
  const box = card.querySelector("[data-sizes]");
  const gone = role.instance_type && !choices.types.some((type) => type.name === role.instance_type);
  const listed = [...choices.types, ...(gone ? [{ name: role.instance_type, label: role.instance_type, tip: getText("gone-text"), about: "" }] : [])];
  const key = JSON.stringify(listed);
  if (box.dataset.shown !== key) fillSizes(box, card, listed, key);
  for (const radio of box.querySelectorAll("input")) radio.checked = radio.value === role.instance_type;
  const own = !role.instance_type || role.cpu || role.memory || role.gpu;
  card.querySelector("[data-own-size]").hidden = !own;
  box.hidden = !listed.length;
  box.parentElement.querySelector("h3").hidden = false;
}

function fillSizes(box, card, listed, key) {
  box.dataset.shown = key;
  const own = { name: "", label: getText("own-size-text"), tip: "", about: "" };
  box.replaceChildren(...[...listed, own].map((type) => createSizeChoice(type, card)));
}

function createSizeChoice(type, card) {
  const choice = cloneTemplate("size-template");
  const radio = choice.querySelector("input");
  radio.name = `size-${card.dataset.number}`;
  radio.value = type.name;
  choice.querySelector("[data-label]").textContent = type.label;
  choice.querySelector("[data-tip]").textContent = type.tip;
  choice.title = [type.tip, type.about].filter(Boolean).join("\n");
  return choice;
}

// -- images

const OTHER_IMAGE = "\u0001other"; // not a valid image name

function showImages(card, role, choices) {
  const select = card.querySelector("select[data-image]");
  const key = JSON.stringify(choices.images);
  if (select.dataset.shown !== key) fillImages(select, choices.images, key);
  const gpus = Number(role.gpu || choices.types.find((type) => type.name === role.instance_type)?.gpu || 0);
  for (const option of select.options) option.disabled = option.dataset.ready === "no" || (option.dataset.needsGpu === "yes" && !gpus);
  const wanted = role.image || "host";
  const listed = choices.images.some((image) => image.name === wanted);
  const other = card.querySelector("[data-role-bind=image]");
  if (document.activeElement !== other && document.activeElement !== select) {
    select.value = listed && card.dataset.other !== "yes" ? wanted : OTHER_IMAGE;
    other.hidden = select.value !== OTHER_IMAGE;
  }
}

function fillImages(select, images, key) {
  select.dataset.shown = key;
  const options = images.map((image) => {
    const option = new Option(image.label === image.name ? `${image.name} · ${image.tip}` : `${image.label} (${image.name}) · ${image.tip}`, image.name);
    option.title = image.about || image.tip;
    option.dataset.ready = image.ready ? "yes" : "no";
    option.dataset.needsGpu = image.needs_gpu ? "yes" : "no";
    return option;
  });
  select.replaceChildren(...options, new Option(getText("other-image-text"), OTHER_IMAGE));
}

// Returns the chosen image; null if its name must still be typed.
export function readChosenImage(card) {
  const select = card.querySelector("select[data-image]");
  const other = card.querySelector("[data-role-bind=image]");
  const isOther = select.value === OTHER_IMAGE;
  card.dataset.other = isOther ? "yes" : "";
  other.hidden = !isOther;
  if (!isOther) return select.value;
  other.focus();
  return null;
}
