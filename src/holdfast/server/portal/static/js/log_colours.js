// Resolves the style of a log line (ansi.js) to colours of the page, legible in both themes: text that a program made
// invisible or chose for another background gets enough contrast (4.5, WCAG AA). Without side effects, so that tests can
// try all pairs of colours.

export const BACKGROUND = { light: "#fbfcfd", dark: "#10151a" }; // same as in 33-log.css
export const TEXT = { light: "#1b2530", dark: "#e6ebf0" };
const DIM_TEXT = { light: "#52606d", dark: "#a9b4bf" };
export const MIN_CONTRAST = 4.5;

// Black, red, green, yellow, blue, magenta, cyan, white; then the bright colours.
const TEXT_PALETTE = {
  light: ["#1b2530", "#b3261e", "#17663a", "#7a5600", "#1a56b8", "#8b2aa3", "#0a6674", "#5b6670", "#52606d", "#c62f26", "#1a7540", "#855f00", "#2463d1", "#9c34b8", "#0b7080", "#36424d"],
  dark: ["#8b97a3", "#ff8a80", "#7fd6a0", "#e8c468", "#7fb5ff", "#e0a3f5", "#6fd3e0", "#d5dde5", "#a0acb8", "#ffa49c", "#9be8b8", "#f5d98a", "#a3caff", "#edc2fb", "#98e6ef", "#ffffff"],
};
const BACKGROUND_PALETTE = ["#1b2530", "#b3261e", "#1e7a45", "#d9a400", "#2463d1", "#9c34b8", "#0b7080", "#d5dde5", "#52606d", "#ff8a80", "#7fd6a0", "#f5d98a", "#7fb5ff", "#e0a3f5", "#6fd3e0", "#ffffff"];

const cache = new Map();
const MAX_CACHED = 4096;

/** Return { color, background } for CSS, each null if the page's default applies. */
export function resolveColours(style) {
  if (style.fg === null && style.bg === null && !style.inverse && !style.dim) return { color: null, background: null };
  const key = `${style.fg}/${style.bg}/${style.inverse}/${style.dim}`;
  if (!cache.has(key)) {
    if (cache.size >= MAX_CACHED) cache.clear();
    cache.set(key, combineThemes(resolveInTheme(style, "light"), resolveInTheme(style, "dark")));
  }
  return cache.get(key);
}

function combineThemes(light, dark) {
  const both = (name) => (light[name] === null ? null : `light-dark(${light[name]}, ${dark[name]})`);
  return { color: both("color"), background: both("background") };
}

export function resolveInTheme(style, theme) {
  let ink = typeof style.fg === "number" ? TEXT_PALETTE[theme][style.fg] : style.fg;
  let fill = typeof style.bg === "number" ? BACKGROUND_PALETTE[style.bg] : style.bg;
  if (style.inverse) [ink, fill] = [fill ?? BACKGROUND[theme], ink ?? TEXT[theme]];
  if (ink === null && fill !== null) return { color: pickContrasting(fill), background: fill };
  if (ink === null && style.dim) ink = DIM_TEXT[theme];
  return { color: ensureContrast(ink ?? TEXT[theme], fill ?? BACKGROUND[theme]), background: fill };
}

/** Return the ink, lightened or darkened until it is legible. */
function ensureContrast(ink, fill) {
  if (getContrast(ink, fill) >= MIN_CONTRAST) return ink;
  const goal = pickContrasting(fill);
  for (let share = 0.1; share < 1; share += 0.1) {
    const mixed = mixColours(ink, goal, share);
    if (getContrast(mixed, fill) >= MIN_CONTRAST) return mixed;
  }
  return goal;
}

function pickContrasting(fill) {
  return getContrast("#000000", fill) > getContrast("#ffffff", fill) ? "#000000" : "#ffffff";
}

export function getContrast(one, other) {
  const [low, high] = [getLuminance(one), getLuminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function getLuminance(colour) {
  const [red, green, blue] = parseHex(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function mixColours(one, other, share) {
  const goal = parseHex(other);
  return "#" + parseHex(one).map((value, n) => Math.round(value + (goal[n] - value) * share).toString(16).padStart(2, "0")).join("");
}

function parseHex(colour) {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}
