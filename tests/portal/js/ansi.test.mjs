import assert from "node:assert/strict";
import { test } from "node:test";
import { MAX_RUNS, PLAIN, applySgr, parseLine } from "../../../src/holdfast/server/portal/static/js/ansi.js";
import { MIN_CONTRAST, BACKGROUND, TEXT, getContrast, resolveColours, resolveInTheme } from "../../../src/holdfast/server/portal/static/js/log_colours.js";

const ESC = "\x1b";
const shown = (text) => parseLine(text, PLAIN).runs.map((run) => run.text).join("");
const styles = (text) => parseLine(text, PLAIN).runs.map((run) => Object.fromEntries(Object.entries(run.style).filter(([name, value]) => value !== PLAIN[name])));

test("plain text is one run", () => {
  assert.deepEqual(parseLine("hello\tworld 日本 👩‍🔬", PLAIN), { runs: [{ text: "hello\tworld 日本 👩‍🔬", style: PLAIN }], style: PLAIN });
});

test("colours: 16, 256 and all", () => {
  assert.deepEqual(styles(`${ESC}[31ma${ESC}[92mb${ESC}[0mc`), [{ fg: 1 }, { fg: 10 }, {}]);
  assert.deepEqual(styles(`${ESC}[38;5;9ma${ESC}[38;5;196mb${ESC}[48;5;255mc`), [{ fg: 9 }, { fg: "#ff0000" }, { fg: "#ff0000", bg: "#eeeeee" }]);
  assert.deepEqual(styles(`${ESC}[38;2;1;2;3;1mx`), [{ fg: "#010203", bold: true }]);
  assert.deepEqual(styles(`${ESC}[38:2::1:2:3mx${ESC}[38:5:1my`), [{ fg: "#010203" }, { fg: 1 }]);
  assert.deepEqual(styles(`${ESC}[44;101mx${ESC}[49my`), [{ bg: 9 }, {}]);
});

test("weights and lines, and their ends", () => {
  assert.deepEqual(styles(`${ESC}[1;2;3;4;7;9mx${ESC}[22;23;24;27;29my`), [{ bold: true, dim: true, italic: true, underline: true, inverse: true, strike: true }, {}]);
  assert.deepEqual(styles(`${ESC}[4:3mx${ESC}[4:0my${ESC}[mz`), [{ underline: true }, {}]);
});

test("nonsense among colours changes nothing", () => {
  for (const codes of ["38;5;999", "38;2;1;2", "38;2;300;0;0", "38", "999", "58;5;1", "48;9;9", "1e9;;;"]) {
    const style = applySgr(PLAIN, codes);
    assert.equal(style.fg, null, codes);
    assert.equal(style.bg, null, codes);
  }
});

test("a style lasts until the next line", () => {
  const { style } = parseLine(`${ESC}[31mred`, PLAIN);
  assert.equal(parseLine("still", style).runs[0].style.fg, 1);
});

test("other control sequences are removed", () => {
  assert.equal(shown(`${ESC}[2J${ESC}[10;10Ha${ESC}[?25lb${ESC}[1Ac${ESC}7d${ESC}(Be`), "abcde");
  assert.equal(shown(`${ESC}]0;title\x07a${ESC}]8;;http://evil${ESC}\\link${ESC}]8;;${ESC}\\`), "alink");
  assert.equal(shown(`a${ESC}]52;c;ZXZpbA==`), "a");
  assert.equal(shown(`a${ESC}Pq#0;2${ESC}\\b${ESC}`), "ab");
});

test("progress bars: the last state of a line, as terminals show it", () => {
  assert.equal(shown("10%\r50%\r100%"), "100%");
  assert.equal(shown("abcdef\rXY"), "XYcdef");
  assert.equal(shown(`abcdef\r${ESC}[KXY`), "XY");
  assert.equal(shown(`abcdef${ESC}[2K${ESC}[1GXY`), "XY");
  assert.equal(shown(`abcdef${ESC}[3DX${ESC}[2CY`), "abcXefY");
  assert.equal(shown("windows\r"), "windows");
  assert.equal(shown("abc\b\bX"), "aXc");
  assert.equal(shown(`a${ESC}[999999999Cb`).length < 30000, true);
  assert.deepEqual(styles(`${ESC}[31mabc${ESC}[0m\rX`), [{}, { fg: 1 }]);
});

test("invisible characters are shown", () => {
  const runs = parseLine("ab\u202ecd\u200b\x00\u2028", PLAIN).runs;
  assert.deepEqual(runs.map((run) => run.text), ["ab", "⟨U+202E⟩", "cd", "⟨U+200B⟩", "⟨U+0000⟩", "⟨U+2028⟩"]);
  assert.deepEqual(runs.map((run) => Boolean(run.invisible)), [false, true, false, true, true, true]);
  assert.equal(shown("a\u200db"), "a⟨U+200D⟩b");
  assert.equal(shown("\u{e0041}\ufeff\x9b31m"), "⟨U+E0041⟩⟨U+FEFF⟩⟨U+009B⟩31m");
});

test("a line of nothing but colours stays small", () => {
  const evil = Array.from({ length: 5000 }, (_, n) => `${ESC}[3${n % 8}mx`).join("");
  assert.ok(parseLine(evil, PLAIN).runs.length <= MAX_RUNS);
  assert.equal(shown(evil), "x".repeat(5000));
  const odd = parseLine("a\u202e".repeat(5000), PLAIN).runs;
  assert.ok(odd.length <= MAX_RUNS + 2);
  assert.ok(!odd.some((run) => run.text.includes("\u202e")));
});

test("every pair of the 16 colours can be read, in both themes", () => {
  const colours = [null, ...Array(16).keys(), "#000000", "#ffffff", "#777777", "#00ff00", "#0000ff"];
  for (const theme of ["light", "dark"]) {
    for (const fg of colours) for (const bg of colours) for (const inverse of [false, true]) for (const dim of [false, true]) {
      const { color, background } = resolveInTheme({ ...PLAIN, fg, bg, inverse, dim }, theme);
      assert.ok(getContrast(color ?? TEXT[theme], background ?? BACKGROUND[theme]) >= MIN_CONTRAST, JSON.stringify({ theme, fg, bg, inverse, dim }));
    }
  }
});

test("colours that can be read are left as they are", () => {
  assert.deepEqual(resolveInTheme({ ...PLAIN, fg: "#0000ff" }, "light"), { color: "#0000ff", background: null });
  assert.deepEqual(resolveColours(PLAIN), { color: null, background: null });
  assert.match(resolveColours({ ...PLAIN, fg: 1 }).color, /^light-dark\(#[0-9a-f]{6}, #[0-9a-f]{6}\)$/);
});

test("a line that erases itself and jumps ahead again and again costs no more than a few long ones", () => {
  const { runs } = parseLine("\x1b[2K\x1b[20000Gx".repeat(100_000), PLAIN);
  assert.equal(runs.map((run) => run.text).join(""), "x");
});
