import assert from "node:assert/strict";
import { test } from "node:test";
import { buildColumns, buildPanels, formatBytes, formatPercent, getTimeRange, formatSummary } from "../../../src/holdfast/server/portal/static/js/charts_data.js";

const TEXTS = { textCpu: "CPU", textMemory: "Memory", textGpu: "GPU", textGpuMemory: "GPU memory", textNetwork: "Network", textDisk: "Disk", textIn: "in", textOut: "out", textRead: "read", textWritten: "written", textLimit: "Limit" };
const point = (at, more = {}) => ({ at, cpu: at, memory: 1024 * at, net_in: 0, net_out: 0, disk_read: 0, disk_written: 0, ...more });
const keys = (answer) => buildPanels(buildColumns(answer), TEXTS).map((panel) => panel.key);

test("points become columns, missing values become gaps", () => {
  const data = buildColumns({ points: [point(10), { at: 20, cpu: 5 }] });
  assert.deepEqual([data.at, data.cpu, data.memory], [[10, 20], [10, 5], [10240, null]]);
});

test("GPUs have charts only where there are any", () => {
  assert.deepEqual(keys({ points: [point(1)] }), ["cpu", "memory", "net", "disk"]);
  assert.deepEqual(keys({ points: [point(1, { gpu: 50, gpu_memory: 7 })] }), ["cpu", "memory", "gpu", "gpu-memory", "net", "disk"]);
});

test("several GPUs are lines beside their mean, each at its own place", () => {
  const gpus = (...percents) => percents.map((percent, number) => ({ index: number + 2, percent, memory: percent * 10 }));
  const data = buildColumns({ points: [point(1, { gpu: 20, gpu_memory: 0, gpus: gpus(10, 30) }), point(2, { gpu: 50, gpu_memory: 0, gpus: gpus(50) })] });
  const gpu = buildPanels(data, TEXTS).find((panel) => panel.key === "gpu");
  assert.deepEqual(gpu.series.map((series) => [series.label, series.values]), [["GPU", [20, 50]], ["GPU 2", [10, 50]], ["GPU 3", [30, null]]]);
});

test("the limit of memory is a line of its own", () => {
  const memory = buildPanels(buildColumns({ points: [point(1), point(2)], limits: { memory: 4096 } }), TEXTS)[1];
  assert.deepEqual(memory.series.map((series) => series.values), [[1024, 2048], [4096, 4096]]);
  assert.equal(memory.series[1].limit, true);
});

test("the time range covers all points", () => {
  assert.deepEqual(getTimeRange([1000, 1100]), { min: 1000, max: 1100 });
  assert.deepEqual(getTimeRange([1000]), { min: 999, max: 1000 });
});

test("a summary contains the last, the mean and the highest", () => {
  const [cpu, memory, net] = buildPanels(buildColumns({ points: [point(100), point(50), point(60, { net_in: 2048 })], limits: { memory: 4096 } }), TEXTS);
  assert.equal(formatSummary(cpu, "now {now}, mean {mean}, max {highest}"), "now 60 %, mean 70 %, max 100 %");
  assert.equal(formatSummary(memory, "highest {highest}"), "highest 100 KiB");
  assert.equal(formatSummary(net, "highest {highest}"), "in: highest 2 KiB/s; out: highest 0 B/s");
  assert.equal(formatSummary({ ...cpu, series: [{ values: [null] }] }, "{now}"), "–");
});

test("numbers are formatted with units", () => {
  assert.deepEqual([0, 9.94, 9.96, 12.4, 250].map(formatPercent), ["0 %", "9.9 %", "10 %", "12 %", "250 %"]);
  assert.deepEqual([0, 1023, 1024, 1536, 3 * 2 ** 30, 5.5 * 2 ** 40].map(formatBytes), ["0 B", "1023 B", "1 KiB", "1.5 KiB", "3 GiB", "5.5 TiB"]);
});
