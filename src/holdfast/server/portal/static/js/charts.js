// Charts of a job's resource usage over the chosen period, updated live: one chart per metric.
import { loadBundle } from "./bundles.js";
import { buildColumns, buildPanels, getTimeRange, formatSummary } from "./charts_data.js";

const POLL_INTERVAL = 10000; // ms; new samples arrive no more often
const CHART_HEIGHT = 170; // px
const PALETTE = ["--run", "--hold", "--good", "--warn", "--bad", "--idle", "--link", "--accent"];
const CURSOR_GROUP = "metrics"; // all charts share one cursor
const HEADROOM = 1.05; // factor: space above the highest line
const DAY_LENGTH = 86400; // seconds
const language = document.documentElement.lang;

class MetricsCharts {
  constructor(root, Chart) {
    this.root = root;
    this.Chart = Chart;
    this.charts = new Map(); // key of a panel -> its chart and box
    this.metrics = null;
    this.status = root.querySelector("[data-status]");
  }

  async fetchMetrics() {
    if (document.hidden) return;
    try {
      const response = await fetch(this.root.dataset.url, { headers: { Accept: "application/json" }, cache: "no-cache" });
      if (response.ok) this.renderMetrics(await response.json());
    } catch {
      return; // the connection indicator in the bar shows that the server is not responding
    }
  }

  renderMetrics(metrics) {
    this.metrics = metrics;
    const data = buildColumns(metrics);
    const texts = this.root.dataset;
    this.status.hidden = data.at.length > 0;
    for (const panel of buildPanels(data, texts)) this.drawPanel(panel, data);
  }

  drawPanel(panel, data) {
    const values = [data.at, ...panel.series.map((series) => series.values)];
    const existing = this.charts.get(panel.key);
    if (existing && existing.series === panel.series.length) {
      existing.chart.setData(values);
      existing.chart.setScale("x", getTimeRange(data.at));
    } else {
      existing?.chart.destroy();
      this.charts.set(panel.key, this.createChart(panel, values, existing?.box));
    }
    const box = this.charts.get(panel.key).box;
    const summary = formatSummary(panel, this.metrics.final ? this.root.dataset.textEnded : this.root.dataset.textMetrics);
    box.querySelector(".chart-summary").textContent = summary;
    box.querySelector(".chart-canvas").setAttribute("aria-label", `${panel.title}. ${summary}`);
  }

  createChart(panel, values, box = this.createBox(panel)) {
    const canvas = box.querySelector(".chart-canvas");
    canvas.replaceChildren();
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--quiet"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line"), width: 1 } };
    const chart = new this.Chart(
      {
        width: canvas.clientWidth || 400,
        height: CHART_HEIGHT,
        cursor: { sync: { key: CURSOR_GROUP }, drag: { setScale: false } },
        legend: { live: true },
        scales: { x: { time: true }, y: { range: (_, low, high) => [0, Math.max((high ?? 0) * HEADROOM, panel.minTop)] } },
        axes: [
          { ...axis, values: (_, ticks) => ticks.map(createClockFormat(ticks)) },
          { ...axis, size: 76, incrs: panel.steps, values: (_, ticks) => ticks.map(panel.format) },
        ],
        series: [
          { label: this.root.dataset.textTime, value: (_, at) => (at === null ? "–" : new Date(at * 1000).toLocaleTimeString(language)) },
          ...panel.series.map((series, number) => ({
            label: series.label,
            stroke: colour(series.limit ? "--bad" : PALETTE[number % PALETTE.length]),
            width: 1.5,
            dash: series.limit ? [6, 4] : undefined,
            points: { show: values[0].length < 2 },
            value: (_, value) => (value === null || value === undefined ? "–" : panel.format(value)),
          })),
        ],
      },
      values,
      canvas,
    );
    chart.setScale("x", getTimeRange(values[0]));
    new ResizeObserver(() => chart.setSize({ width: canvas.clientWidth || 400, height: CHART_HEIGHT })).observe(canvas);
    return { chart, box, series: panel.series.length };
  }

  createBox(panel) {
    const box = document.createElement("section");
    box.className = "chart card";
    box.dataset.chart = panel.key;
    const title = document.createElement("h3");
    title.textContent = panel.title;
    const canvas = document.createElement("div");
    canvas.className = "chart-canvas";
    canvas.setAttribute("role", "img");
    const summary = document.createElement("p");
    summary.className = "chart-summary quiet";
    box.append(title, canvas, summary);
    this.root.querySelector("[data-charts]").append(box);
    return box;
  }

  redrawAll() {
    for (const { chart, box } of this.charts.values()) {
      chart.destroy();
      box.remove();
    }
    this.charts.clear();
    if (this.metrics) this.renderMetrics(this.metrics);
  }
}

/** Return a formatter for times of day; it adds the date if the ticks span more than a day. */
function createClockFormat(ticks) {
  const days = ticks.at(-1) - ticks[0] > DAY_LENGTH ? { month: "numeric", day: "numeric" } : {};
  const format = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...days });
  return (at) => format.format(new Date(at * 1000));
}

async function startCharts(root) {
  const found = await loadBundle("charts");
  if (found === null) return;
  const charts = new MetricsCharts(root, found.Chart);
  await charts.fetchMetrics();
  const timer = setInterval(() => {
    if (!root.isConnected) clearInterval(timer);
    else if (root.dataset.live !== undefined) charts.fetchMetrics();
  }, POLL_INTERVAL);
  document.addEventListener("visibilitychange", () => charts.fetchMetrics());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.redrawAll());
}

const root = document.querySelector("[data-metrics]");
if (root) startCharts(root);
