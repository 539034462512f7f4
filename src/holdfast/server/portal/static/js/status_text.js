// Status texts of a view. The page contains them in the user's language: <p data-status data-text-lost="…">.

export class StatusText {
  constructor(section) {
    this.element = section.querySelector("[data-status]");
  }

  /** Return the text with its placeholders filled in. */
  format(name, values = {}) {
    const key = "text" + name[0].toUpperCase() + name.slice(1);
    return Object.entries(values).reduce((text, [placeholder, value]) => text.replaceAll(`{${placeholder}}`, String(value)), this.element.dataset[key] ?? "");
  }

  /** Show the text in the status element, which screen readers announce. */
  show(name, values = {}) {
    const text = this.format(name, values);
    if (text.includes("`")) this.element.replaceChildren(...renderCode(text));
    else if (this.element.textContent !== text) this.element.textContent = text;
  }

  /** Return the singular or plural text. */
  formatCount(name, number) {
    return this.format(number === 1 ? `${name}One` : `${name}Many`, { n: number.toLocaleString() });
  }
}

// Renders parts between backticks as code.
function renderCode(text) {
  return text.split("`").map((part, at) => {
    if (at % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  });
}

export function formatBytes(count) {
  let size = count;
  for (const unit of ["B", "KiB", "MiB", "GiB"]) {
    if (size < 1024) return `${unit === "B" || size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} TiB`;
}
