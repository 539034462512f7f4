// Colours of the terminal in both themes; xterm.js itself raises the contrast of text that is too faint.

const LIGHT = {
  background: "#fbfcfd", foreground: "#1b2530", cursor: "#1b2530", cursorAccent: "#fbfcfd", selectionBackground: "#bcdcf5",
  black: "#1b2530", red: "#a3211b", green: "#17663a", yellow: "#7a4b00", blue: "#0b5c94", magenta: "#6b2fa0", cyan: "#0f6674", white: "#52606d",
  brightBlack: "#46525e", brightRed: "#c22f27", brightGreen: "#1d7f48", brightYellow: "#8f5a00", brightBlue: "#1470b0", brightMagenta: "#8341bd", brightCyan: "#147c8c", brightWhite: "#12171c",
};
const DARK = {
  background: "#10151a", foreground: "#e6ebf0", cursor: "#e6ebf0", cursorAccent: "#10151a", selectionBackground: "#2a557a",
  black: "#36424d", red: "#ff9d97", green: "#7fd6a0", yellow: "#f2c065", blue: "#7cc0f0", magenta: "#d3aef7", cyan: "#74d3de", white: "#c3ccd4",
  brightBlack: "#8d99a5", brightRed: "#ffb8b3", brightGreen: "#a3e6bc", brightYellow: "#f8d691", brightBlue: "#a6d6f8", brightMagenta: "#e3ccfb", brightCyan: "#a0e5ec", brightWhite: "#ffffff",
};

const dark = matchMedia("(prefers-color-scheme: dark)");

export function getTheme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen === "dark" || (chosen === "auto" && dark.matches) ? DARK : LIGHT;
}

/** Call `onChange` with the new theme when the system theme changes. */
export function onThemeChange(onChange) {
  dark.addEventListener("change", () => onChange(getTheme()));
}
