// A log by the REST interface: bytes from anywhere, hits of a search, times.
import { toLogin } from "./live.js";

export class Feed {
  /** `address`: /api/v1/jobs/ID/log?task=…, which says whose log and which stream. */
  constructor(address) {
    this.address = address;
  }

  /** Bytes from `start`, fewer at the end: { start, end, bytes, size, complete }. Older ones may be dropped by now. */
  async read(start, count) {
    return this.#bytes({ start, count });
  }

  /** The newest bytes. */
  async tail(count) {
    return this.#bytes({ bytes: count });
  }

  /** { pieces: [{ start, end, at }], next } */
  async times(start, count) {
    return (await this.#ask("/times", { start, count, limit: 10000 })).json();
  }

  /** `question`: { q, regex, ignore_case, start, limit } -> { hits, next }. */
  async search(question) {
    return (await this.#ask("/search", question)).json();
  }

  async #bytes(range) {
    const answer = await this.#ask("", range);
    const number = (name) => Number(answer.headers.get(name));
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const start = number("X-Log-Start");
    const complete = answer.headers.get("X-Log-Complete") === "true";
    return { start, end: start + bytes.length, bytes, size: number("X-Log-Size"), complete };
  }

  async #ask(what, parameters) {
    const address = new URL(this.address, location.href);
    address.pathname += what;
    for (const [name, value] of Object.entries(parameters)) address.searchParams.set(name, value);
    const answer = await fetch(address, { headers: { Accept: "application/json, text/plain" } });
    if (answer.status === 401) toLogin();
    if (!answer.ok) throw await problemOf(answer);
    return answer;
  }
}

async function problemOf(answer) {
  try {
    return new Error((await answer.json()).error.message);
  } catch {
    return new Error(answer.statusText);
  }
}
