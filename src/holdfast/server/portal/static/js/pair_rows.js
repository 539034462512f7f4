// Rows with a name and a value in the form. A row without a name is not in the file yet.

// Shows `entries`, a list of [name, value], as rows of the template; rows without a name stay below them. Does not change
// the field with the focus.
export function showRows(box, template, entries, fill) {
  const rows = [...box.children];
  const named = rows.filter((row) => row.dataset.name);
  entries.forEach((entry, index) => {
    const row = named[index] ?? insertRow(box, template, rows.find((other) => !other.dataset.name));
    row.dataset.name = entry[0];
    setInputValue(row.querySelector("[data-pair=name]"), entry[0]);
    fill(row, entry);
  });
  for (const row of named.slice(entries.length)) row.remove();
}

export function addRow(box, template) {
  const empty = [...box.children].find((row) => !row.dataset.name) ?? insertRow(box, template, null);
  empty.querySelector("[data-pair=name]").focus();
}

// Marks a row as one of the named rows.
export function setRowName(row, name) {
  row.dataset.name = name;
}

function insertRow(box, template, before) {
  const row = template.content.firstElementChild.cloneNode(true);
  box.insertBefore(row, before);
  return row;
}

export function setInputValue(input, value) {
  if (input !== document.activeElement && input.value !== value) input.value = value;
}
