// What the log view says. The words themselves are in the page, in its language: <p data-status data-say-lost="…">.

export class Words {
  constructor(section) {
    this.element = section.querySelector("[data-status]");
  }

  /** The text of this name with its blanks filled in. */
  say(name, names = {}) {
    const key = "say" + name[0].toUpperCase() + name.slice(1);
    return Object.entries(names).reduce((text, [blank, value]) => text.replaceAll(`{${blank}}`, String(value)), this.element.dataset[key] ?? "");
  }

  /** Say it where it is read out. */
  tell(name, names = {}) {
    const text = this.say(name, names);
    if (text.includes("`")) this.element.replaceChildren(...coded(text));
    else if (this.element.textContent !== text) this.element.textContent = text;
  }

  /** One or many. */
  count(name, number) {
    return this.say(number === 1 ? `${name}One` : `${name}Many`, { n: number.toLocaleString() });
  }
}

// What stands between backticks is code.
function coded(text) {
  return text.split("`").map((part, at) => {
    if (at % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

export function showBytes(count) {
  let size = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${unit === "B" || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}
