// Cards of the form, one for each role: its command, size, image and what else is its own.
import { put, showRows } from "./job_rows.js";

const words = (id) => document.getElementById(id).content.textContent.trim();
const piece = (id) => document.getElementById(id).content.firstElementChild.cloneNode(true);
let made = 0; // cards ever, so that each has ids of its own

export function showRoles(box, job, choices) {
  job.roles.forEach((role, index) => {
    const card = box.children[index] ?? box.appendChild(makeCard());
    card.dataset.role = role.name;
    card.dataset.named = job.named ? "yes" : "";
    showCard(card, role, job, choices);
  });
  while (box.children.length > job.roles.length) box.lastElementChild.remove();
}

function makeCard() {
  const card = piece("role-template");
  made += 1;
  card.dataset.number = made;
  for (const field of card.querySelectorAll(".field")) labelField(field, `role${made}-${field.dataset.key}`);
  card.setAttribute("aria-labelledby", (card.querySelector("h2").id = `role${made}-title`));
  const sizes = card.querySelector("[data-sizes]");
  sizes.setAttribute("aria-labelledby", (sizes.parentElement.querySelector("h3").id = `role${made}-sizes`));
  return card;
}

function labelField(field, id) {
  const control = field.querySelector("select, input, textarea");
  const label = field.querySelector(":scope > label");
  if (!control || !label) return;
  control.id = label.htmlFor = id;
  const said = [...field.querySelectorAll(":scope > .help, :scope > .problem")];
  said.forEach((text, index) => (text.id = `${id}-said${index}`));
  for (const typed of field.querySelectorAll("select, input, textarea")) typed.setAttribute("aria-describedby", said.map((text) => text.id).join(" "));
}

function showCard(card, role, job, choices) {
  card.querySelector("h2").textContent = job.named ? card.dataset.title.replace("{name}", role.name) : card.dataset.alone;
  for (const part of card.querySelectorAll("[data-named]")) part.hidden = !job.named;
  card.querySelector("[data-do=remove-role]").hidden = job.roles.length < 2;
  const prefix = job.named ? `roles${step(role.name)}.` : "";
  for (const field of card.querySelectorAll(".field[data-key]")) field.dataset.path = prefix + field.dataset.key;
  for (const input of card.querySelectorAll("[data-role-bind]")) put(input, role[input.dataset.roleBind]);
  card.querySelector("textarea").rows = Math.min(16, Math.max(3, role.command.split("\n").length + 1));
  showSizes(card, role, choices);
  showImages(card, role, choices);
  showRows(card.querySelector("[data-pairs]"), document.getElementById("pair-template"), role.env, (row, [, value]) => put(row.querySelector("[data-pair=value]"), value));
}

// As the server writes paths.
function step(name) {
  return /^[\p{L}\p{N}_$~-]{1,64}$/u.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`;
}

// -- sizes

function showSizes(card, role, choices) {
  const box = card.querySelector("[data-sizes]");
  const gone = role.instance_type && !choices.types.some((type) => type.name === role.instance_type);
  const listed = [...choices.types, ...(gone ? [{ name: role.instance_type, label: role.instance_type, tip: words("gone-words"), about: "" }] : [])];
  const mark = JSON.stringify(listed);
  if (box.dataset.shown !== mark) fillSizes(box, card, listed, mark);
  for (const radio of box.querySelectorAll("input")) radio.checked = radio.value === role.instance_type;
  const own = !role.instance_type || role.cpu || role.memory || role.gpu;
  card.querySelector("[data-own-size]").hidden = !own;
  box.hidden = !listed.length;
  box.parentElement.querySelector("h3").hidden = false;
}

function fillSizes(box, card, listed, mark) {
  box.dataset.shown = mark;
  const own = { name: "", label: words("own-size-words"), tip: "", about: "" };
  box.replaceChildren(...[...listed, own].map((type) => sizeChoice(type, card)));
}

function sizeChoice(type, card) {
  const choice = piece("size-template");
  const radio = choice.querySelector("input");
  radio.name = `size-${card.dataset.number}`;
  radio.value = type.name;
  choice.querySelector("[data-label]").textContent = type.label;
  choice.querySelector("[data-tip]").textContent = type.tip;
  choice.title = [type.tip, type.about].filter(Boolean).join("\n");
  return choice;
}

// -- images

const OTHER = "\u0001other"; // no image is called that

function showImages(card, role, choices) {
  const select = card.querySelector("select[data-image]");
  const mark = JSON.stringify(choices.images);
  if (select.dataset.shown !== mark) fillImages(select, choices.images, mark);
  const gpus = Number(role.gpu || choices.types.find((type) => type.name === role.instance_type)?.gpu || 0);
  for (const option of select.options) option.disabled = option.dataset.ready === "no" || (option.dataset.needsGpu === "yes" && !gpus);
  const wanted = role.image || "host";
  const listed = choices.images.some((image) => image.name === wanted);
  const other = card.querySelector("[data-role-bind=image]");
  if (document.activeElement !== other && document.activeElement !== select) {
    select.value = listed && card.dataset.other !== "yes" ? wanted : OTHER;
    other.hidden = select.value !== OTHER;
  }
}

function fillImages(select, images, mark) {
  select.dataset.shown = mark;
  const options = images.map((image) => {
    const option = new Option(image.label === image.name ? `${image.name} · ${image.tip}` : `${image.label} (${image.name}) · ${image.tip}`, image.name);
    option.title = image.about || image.tip;
    option.dataset.ready = image.ready ? "yes" : "no";
    option.dataset.needsGpu = image.needs_gpu ? "yes" : "no";
    return option;
  });
  select.replaceChildren(...options, new Option(words("other-image-words"), OTHER));
}

// -> the image that was chosen; null: its name is still to be typed.
export function chosenImage(card) {
  const select = card.querySelector("select[data-image]");
  const other = card.querySelector("[data-role-bind=image]");
  const isOther = select.value === OTHER;
  card.dataset.other = isOther ? "yes" : "";
  other.hidden = !isOther;
  if (!isOther) return select.value;
  other.focus();
  return null;
}
