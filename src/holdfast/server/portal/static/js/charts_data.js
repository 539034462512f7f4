// Converts metrics from the server into chart data. Independent of the page.

const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power); // tick steps of byte axes
const METRICS = ["cpu", "memory", "net_in", "net_out", "disk_read", "disk_written", "gpu", "gpu_memory"];

/** Convert points to columns, with separate columns for each GPU of a task. */
export function buildColumns(metrics) {
  const points = metrics.points;
  const found = { at: points.map((point) => point.at), limits: metrics.limits ?? {}, gpus: [] };
  for (const name of METRICS) found[name] = points.map((point) => point[name] ?? null);
  const indices = [...new Set(points.flatMap((point) => (point.gpus ?? []).map((gpu) => gpu.index)))].sort((a, b) => a - b);
  for (const index of indices) {
    const samples = points.map((point) => (point.gpus ?? []).find((gpu) => gpu.index === index));
    found.gpus.push({ index, percent: samples.map((gpu) => gpu?.percent ?? null), memory: samples.map((gpu) => gpu?.memory ?? null) });
  }
  return found;
}

/** Return the charts that have data. */
export function buildPanels(data, texts) {
  const level = (bytes) => formatBytes(bytes);
  const speed = (bytes) => `${formatBytes(bytes)}/s`;
  const found = [
    { key: "cpu", title: texts.textCpu, format: formatPercent, minTop: 10, series: [createSeries(texts.textCpu, data.cpu)] },
    { key: "memory", title: texts.textMemory, format: level, steps: BYTE_STEPS, minTop: 1 << 20, series: [createSeries(texts.textMemory, data.memory), ...createLimitSeries(data.limits.memory, data, texts)] },
  ];
  if (hasValues(data.gpu)) {
    found.push(
      { key: "gpu", title: texts.textGpu, format: formatPercent, minTop: 100, series: createGpuSeries(data, "percent", texts.textGpu, data.gpu) },
      { key: "gpu-memory", title: texts.textGpuMemory, format: level, steps: BYTE_STEPS, minTop: 1 << 20, series: createGpuSeries(data, "memory", texts.textGpuMemory, data.gpu_memory) },
    );
  }
  found.push(
    { key: "net", title: texts.textNetwork, format: speed, steps: BYTE_STEPS, minTop: 1024, series: [createSeries(texts.textIn, data.net_in), createSeries(texts.textOut, data.net_out)] },
    { key: "disk", title: texts.textDisk, format: speed, steps: BYTE_STEPS, minTop: 1024, series: [createSeries(texts.textRead, data.disk_read), createSeries(texts.textWritten, data.disk_written)] },
  );
  return found;
}

/** Return the time range of the points. */
export function getTimeRange(at) {
  const last = at.at(-1) ?? Date.now() / 1000;
  return { min: Math.min(at[0] ?? last, last - 1), max: last };
}

/** Return "now 98 %, mean 87 %, highest 100 %" for each line; `template` selects the values. */
export function formatSummary(panel, template) {
  const lines = panel.series.filter((series) => !series.limit);
  return lines.map((series) => (lines.length > 1 ? `${series.label}: ` : "") + formatSeries(panel, series.values, template)).join("; ");
}

function formatSeries(panel, points, template) {
  const known = points.filter((value) => value !== null);
  if (!known.length) return "–";
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const values = { now: known.at(-1), mean, highest: Math.max(...known) };
  return template.replace(/\{(\w+)\}/g, (_, name) => panel.format(values[name]));
}

export function formatPercent(value) {
  return `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} %`;
}

export function formatBytes(count) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= size) return `${Number((count / size).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

function createSeries(label, values) {
  return { label, values };
}

function createLimitSeries(value, data, texts) {
  return value ? [{ label: texts.textLimit, values: data.at.map(() => value), limit: true }] : [];
}

function createGpuSeries(data, name, label, mean) {
  if (data.gpus.length < 2) return [createSeries(label, mean)];
  return [createSeries(label, mean), ...data.gpus.map((gpu) => createSeries(`GPU ${gpu.index}`, gpu[name]))];
}

function hasValues(values) {
  return values.some((value) => value !== null);
}
