// From the server's answer to what charts draw. No page is needed for any of it.

const BINARY = Array.from({ length: 50 }, (_, power) => 2 ** power); // steps of an axis of bytes
const NAMES = ["cpu", "memory", "net_in", "net_out", "disk_read", "disk_written", "gpu", "gpu_memory"];

/** Points as columns; the GPUs of one task each by itself. */
export function columns(answer) {
  const points = answer.points;
  const found = { at: points.map((point) => point.at), limits: answer.limits ?? {}, gpus: [] };
  for (const name of NAMES) found[name] = points.map((point) => point[name] ?? null);
  const indices = [...new Set(points.flatMap((point) => (point.gpus ?? []).map((gpu) => gpu.index)))].sort((a, b) => a - b);
  for (const index of indices) {
    const of = points.map((point) => (point.gpus ?? []).find((gpu) => gpu.index === index));
    found.gpus.push({ index, percent: of.map((gpu) => gpu?.percent ?? null), memory: of.map((gpu) => gpu?.memory ?? null) });
  }
  return found;
}

/** The charts there are something to draw in. */
export function panels(data, words) {
  const level = (bytes) => showBytes(bytes);
  const speed = (bytes) => `${showBytes(bytes)}/s`;
  const found = [
    { key: "cpu", title: words.sayCpu, show: showPercent, least: 10, series: [line(words.sayCpu, data.cpu)] },
    { key: "memory", title: words.sayMemory, show: level, steps: BINARY, least: 1 << 20, series: [line(words.sayMemory, data.memory), ...limit(data.limits.memory, data, words)] },
  ];
  if (some(data.gpu)) {
    found.push(
      { key: "gpu", title: words.sayGpu, show: showPercent, least: 100, series: perGpu(data, "percent", words.sayGpu, data.gpu) },
      { key: "gpu-memory", title: words.sayGpuMemory, show: level, steps: BINARY, least: 1 << 20, series: perGpu(data, "memory", words.sayGpuMemory, data.gpu_memory) },
    );
  }
  found.push(
    { key: "net", title: words.sayNetwork, show: speed, steps: BINARY, least: 1024, series: [line(words.sayIn, data.net_in), line(words.sayOut, data.net_out)] },
    { key: "disk", title: words.sayDisk, show: speed, steps: BINARY, least: 1024, series: [line(words.sayRead, data.disk_read), line(words.sayWritten, data.disk_written)] },
  );
  return found;
}

/** From when to when is drawn: as long as there are points. */
export function span(at) {
  const last = at.at(-1) ?? Date.now() / 1000;
  return { min: Math.min(at[0] ?? last, last - 1), max: last };
}

/** "now 98 %, mean 87 %, highest 100 %" of each line; `form` has what is wanted of these. */
export function summary(panel, form) {
  const lines = panel.series.filter((series) => !series.limit);
  return lines.map((series) => (lines.length > 1 ? `${series.label}: ` : "") + told(panel, series.values, form)).join("; ");
}

function told(panel, values, form) {
  const known = values.filter((value) => value !== null);
  if (!known.length) return "–";
  const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
  const figures = { now: known.at(-1), mean, highest: Math.max(...known) };
  return form.replace(/\{(\w+)\}/g, (_, name) => panel.show(figures[name]));
}

export function showPercent(value) {
  return `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} %`;
}

export function showBytes(count) {
  for (const [unit, size] of [["TiB", 2 ** 40], ["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]]) {
    if (count >= size) return `${Number((count / size).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(count)} B`;
}

function line(label, values) {
  return { label, values };
}

function limit(value, data, words) {
  return value ? [{ label: words.sayLimit, values: data.at.map(() => value), limit: true }] : [];
}

function perGpu(data, name, label, mean) {
  if (data.gpus.length < 2) return [line(label, mean)];
  return [line(label, mean), ...data.gpus.map((gpu) => line(`GPU ${gpu.index}`, gpu[name]))];
}

function some(values) {
  return values.some((value) => value !== null);
}
