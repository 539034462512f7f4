// A style of a log (ansi.js) as colours of a page, legible in both themes: a text that a program made invisible, or
// chose for another background, is shown with enough contrast (4.5, as WCAG AA asks).
// Pure, so that every pair of colours can be tried.

export const GROUND = { light: "#fbfcfd", dark: "#10151a" }; // as in 34-log.css
export const TEXT = { light: "#1b2530", dark: "#e6ebf0" };
const QUIET = { light: "#52606d", dark: "#a9b4bf" };
export const ENOUGH = 4.5;

// Black, red, green, yellow, blue, magenta, cyan, white; then the bright ones.
const INKS = {
  light: ["#1b2530", "#b3261e", "#17663a", "#7a5600", "#1a56b8", "#8b2aa3", "#0a6674", "#5b6670", "#52606d", "#c62f26", "#1a7540", "#855f00", "#2463d1", "#9c34b8", "#0b7080", "#36424d"],
  dark: ["#8b97a3", "#ff8a80", "#7fd6a0", "#e8c468", "#7fb5ff", "#e0a3f5", "#6fd3e0", "#d5dde5", "#a0acb8", "#ffa49c", "#9be8b8", "#f5d98a", "#a3caff", "#edc2fb", "#98e6ef", "#ffffff"],
};
const FILLS = ["#1b2530", "#b3261e", "#1e7a45", "#d9a400", "#2463d1", "#9c34b8", "#0b7080", "#d5dde5", "#52606d", "#ff8a80", "#7fd6a0", "#f5d98a", "#7fb5ff", "#e0a3f5", "#6fd3e0", "#ffffff"];

const known = new Map();
const MAX_KNOWN = 4096;

/** { color, background } for CSS, each null where the page's own is right. */
export function coloursOf(style) {
  if (style.fg === null && style.bg === null && !style.inverse && !style.dim) return { color: null, background: null };
  const key = `${style.fg}/${style.bg}/${style.inverse}/${style.dim}`;
  if (!known.has(key)) {
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(key, inBoth(inTheme(style, "light"), inTheme(style, "dark")));
  }
  return known.get(key);
}

function inBoth(light, dark) {
  const both = (name) => (light[name] === null ? null : `light-dark(${light[name]}, ${dark[name]})`);
  return { color: both("color"), background: both("background") };
}

export function inTheme(style, theme) {
  let ink = typeof style.fg === "number" ? INKS[theme][style.fg] : style.fg;
  let fill = typeof style.bg === "number" ? FILLS[style.bg] : style.bg;
  if (style.inverse) [ink, fill] = [fill ?? GROUND[theme], ink ?? TEXT[theme]];
  if (ink === null && fill !== null) return { color: farthest(fill), background: fill };
  if (ink === null && style.dim) ink = QUIET[theme];
  return { color: legible(ink ?? TEXT[theme], fill ?? GROUND[theme]), background: fill };
}

/** The ink itself, or one like it that can be read: lighter or darker, whichever is nearer. */
function legible(ink, fill) {
  if (contrast(ink, fill) >= ENOUGH) return ink;
  const goal = farthest(fill);
  for (let share = 0.1; share < 1; share += 0.1) {
    const mixed = mix(ink, goal, share);
    if (contrast(mixed, fill) >= ENOUGH) return mixed;
  }
  return goal;
}

function farthest(fill) {
  return contrast("#000000", fill) > contrast("#ffffff", fill) ? "#000000" : "#ffffff";
}

export function contrast(one, other) {
  const [low, high] = [brightness(one), brightness(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function brightness(colour) {
  const [red, green, blue] = parts(colour).map((value) => {
    const share = value / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}

function mix(one, other, share) {
  const goal = parts(other);
  return "#" + parts(one).map((value, n) => Math.round(value + (goal[n] - value) * share).toString(16).padStart(2, "0")).join("");
}

function parts(colour) {
  return [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
}
