// Rows of a name and a value in the form. A row that has no name yet is nobody's but the form's.

// Shows `entries` ([name, value] each) as rows of the template; rows without a name stay below them. The field that is
// being typed in is left alone.
export function showRows(box, template, entries, fill) {
  const rows = [...box.children];
  const named = rows.filter((row) => row.dataset.name);
  entries.forEach((entry, index) => {
    const row = named[index] ?? add(box, template, rows.find((other) => !other.dataset.name));
    row.dataset.name = entry[0];
    put(row.querySelector("[data-pair=name]"), entry[0]);
    fill(row, entry);
  });
  for (const row of named.slice(entries.length)) row.remove();
}

export function addRow(box, template) {
  const empty = [...box.children].find((row) => !row.dataset.name) ?? add(box, template, null);
  empty.querySelector("[data-pair=name]").focus();
}

// A row whose first name was just typed becomes one of the named.
export function adopt(row, name) {
  row.dataset.name = name;
}

function add(box, template, before) {
  const row = template.content.firstElementChild.cloneNode(true);
  box.insertBefore(row, before);
  return row;
}

export function put(input, value) {
  if (input !== document.activeElement && input.value !== value) input.value = value;
}
