// Reads a log from the REST API: ranges of bytes, search hits and times.
import { redirectToLogin } from "./live.js";

export class LogClient {
  /** `address`: /api/v1/jobs/ID/log?task=…, which selects the task and the stream. */
  constructor(address) {
    this.address = address;
  }

  /** Return bytes from `start`, fewer at the end: { start, end, bytes, size, complete }. The server may have dropped older bytes. */
  async readRange(start, count) {
    return this.#fetchBytes({ start, count });
  }

  /** Return the newest bytes. */
  async readTail(count) {
    return this.#fetchBytes({ bytes: count });
  }

  /** Return { pieces: [{ start, end, at }], next }. */
  async readTimes(start, count) {
    return (await this.#request("/times", { start, count, limit: 10000 })).json();
  }

  /** `query`: { q, regex, ignore_case, start, limit } -> { hits, next }. */
  async search(query) {
    return (await this.#request("/search", query)).json();
  }

  async #fetchBytes(range) {
    const response = await this.#request("", range);
    const getNumber = (name) => Number(response.headers.get(name));
    const bytes = new Uint8Array(await response.arrayBuffer());
    const start = getNumber("X-Log-Start");
    const complete = response.headers.get("X-Log-Complete") === "true";
    return { start, end: start + bytes.length, bytes, size: getNumber("X-Log-Size"), complete };
  }

  async #request(path, parameters) {
    const address = new URL(this.address, location.href);
    address.pathname += path;
    for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
    const response = await fetch(address, { headers: { Accept: "application/json, text/plain" } });
    if (response.status === 401) redirectToLogin();
    if (!response.ok) throw await parseProblem(response);
    return response;
  }
}

async function parseProblem(response) {
  try {
    return new Error((await response.json()).error.message);
  } catch {
    return new Error(response.statusText);
  }
}
