// What a job uses, drawn as it comes: a chart for each kind of figure, over the time that was chosen.
import { bundled } from "./bundled.js";
import { columns, panels, span, summary } from "./charts_data.js";

const EVERY = 10000; // ms; new figures come no more often
const HEIGHT = 170;
const PALETTE = ["--run", "--hold", "--good", "--warn", "--bad", "--idle", "--link", "--accent"];
const SYNC = "figures"; // one cursor for all
const ROOM = 1.05; // above the highest line
const DAY = 86400;
const language = document.documentElement.lang;

class Charts {
  constructor(root, Chart) {
    this.root = root;
    this.Chart = Chart;
    this.drawn = new Map(); // key of a panel -> its chart and box
    this.answer = null;
    this.say = root.querySelector("[data-status]");
  }

  async look() {
    if (document.hidden) return;
    try {
      const answer = await fetch(this.root.dataset.from, { headers: { Accept: "application/json" }, cache: "no-cache" });
      if (answer.ok) this.show(await answer.json());
    } catch {
      return; // the sign in the bar tells that nobody answers
    }
  }

  show(answer) {
    this.answer = answer;
    const data = columns(answer);
    const words = this.root.dataset;
    this.say.hidden = data.at.length > 0;
    for (const panel of panels(data, words)) this.draw(panel, data);
  }

  draw(panel, data) {
    const values = [data.at, ...panel.series.map((series) => series.values)];
    const known = this.drawn.get(panel.key);
    if (known && known.series === panel.series.length) {
      known.chart.setData(values);
      known.chart.setScale("x", span(data.at));
    } else {
      known?.chart.destroy();
      this.drawn.set(panel.key, this.make(panel, values, known?.box));
    }
    const box = this.drawn.get(panel.key).box;
    const told = summary(panel, this.answer.final ? this.root.dataset.sayEnded : this.root.dataset.sayFigures);
    box.querySelector(".chart-summary").textContent = told;
    box.querySelector(".chart-canvas").setAttribute("aria-label", `${panel.title}. ${told}`);
  }

  make(panel, values, box = this.box(panel)) {
    const place = box.querySelector(".chart-canvas");
    place.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const chart = new this.Chart(
      {
        width: place.clientWidth || 400,
        height: HEIGHT,
        cursor: { sync: { key: SYNC }, drag: { setScale: false } },
        legend: { live: true },
        scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max((high ?? 0) * ROOM, panel.least)] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map(clock(ticks)) },
          { ...axis, size: 76, incrs: panel.steps, values: (_, ticks) => ticks.map(panel.show) },
        ],
        series: [
          { label: this.root.dataset.sayTime, value: (_, at) => (at === null ? "–" : new Date(at * 1000).toLocaleTimeString(language)) },
          ...panel.series.map((series, number) => ({
            label: series.label,
            stroke: colour(series.limit ? "--bad" : PALETTE[number % PALETTE.length]),
            width: 1.5,
            dash: series.limit ? [6, 4] : undefined,
            points: { show: values[0].length < 2 },
            value: (_, value) => (value === null || value === undefined ? "–" : panel.show(value)),
          })),
        ],
      },
      values,
      place,
    );
    chart.setScale("x", span(values[0]));
    new ResizeObserver(() => chart.setSize({ width: place.clientWidth || 400, height: HEIGHT })).observe(place);
    return { chart, box, series: panel.series.length };
  }

  box(panel) {
    const box = document.createElement("section");
    box.className = "chart card";
    box.dataset.chart = panel.key;
    const title = document.createElement("h3");
    title.textContent = panel.title;
    const place = document.createElement("div");
    place.className = "chart-canvas";
    place.setAttribute("role", "img");
    const told = document.createElement("p");
    told.className = "chart-summary quiet";
    box.append(title, place, told);
    this.root.querySelector("[data-charts]").append(box);
    return box;
  }

  again() {
    for (const { chart, box } of this.drawn.values()) {
      chart.destroy();
      box.remove();
    }
    this.drawn.clear();
    if (this.answer) this.show(this.answer);
  }
}

/** Times of day; beyond a day, with the day. */
function clock(ticks) {
  const days = ticks.at(-1) - ticks[0] > DAY ? { month: "numeric", day: "numeric" } : {};
  const form = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...days });
  return (at) => form.format(new Date(at * 1000));
}

async function start(root) {
  const found = await bundled("charts");
  if (found === null) return;
  const charts = new Charts(root, found.Chart);
  await charts.look();
  const timer = setInterval(() => {
    if (!root.isConnected) clearInterval(timer);
    else if (root.dataset.live !== undefined) charts.look();
  }, EVERY);
  document.addEventListener("visibilitychange", () => charts.look());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.again());
}

const root = document.querySelector("[data-figures]");
if (root) start(root);
