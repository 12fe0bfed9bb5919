// The service as a phone sees it: one participant's token, writes that are kept until they are answered, and events.
const PREFIX = "study.";
const AGAIN = new Set([401, 408, 425, 429, 500, 502, 503, 504]);
const SECONDS = 25; // of a long poll

export const store = {
  get(name) {
    try {
      return JSON.parse(localStorage.getItem(PREFIX + name));
    } catch {
      return null;
    }
  },
  set(name, value) {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  },
  clear() {
    for (const name of Object.keys(localStorage)) if (name.startsWith(PREFIX)) localStorage.removeItem(name);
  },
};

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || `HTTP ${status}`);
    this.status = status;
    this.code = problem.code || "unknown";
  }
}

export class Service {
  // address: where the service is, such as "https://study.example.org/"
  constructor(address) {
    this.address = new URL("api/v1/", new URL(address, document.baseURI));
    this.token = null;
    this.sending = null;
    this.ahead = 0; // milliseconds that the service's clock is ahead of the phone's
  }

  // The time by the service's clock: phones may be wrong by hours, and what they tell is dated.
  now() {
    return Date.now() + this.ahead;
  }

  get participant() {
    return store.get("participant");
  }

  get connected() {
    return store.get("refresh") !== null;
  }

  // A phone keeps its refresh token and nothing else; it reads and writes one participant, and can be revoked.
  async connect(refresh) {
    const found = await this.#renew(refresh.trim());
    store.clear(); // of whoever had this phone before
    store.set("refresh", refresh.trim());
    store.set("participant", found.participant);
  }

  async #renew(refresh) {
    const answer = await fetch(new URL("tokens", this.address), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ refresh }),
    });
    const body = await answer.json();
    if (!answer.ok) throw new Refused(answer.status, body);
    this.token = body.token;
    return body;
  }

  // One request. A token that has run out is renewed once; without a network `fetch` throws a TypeError.
  async request(method, path, { body, key, headers = {}, signal } = {}, again = true) {
    if (!this.token) await this.#renew(store.get("refresh"));
    const sent = { ...headers, Authorization: `Bearer ${this.token}` };
    if (body !== undefined) sent["Content-Type"] = "application/json";
    if (key) sent["Idempotency-Key"] = key;
    const content = body === undefined ? undefined : JSON.stringify(body);
    const answer = await fetch(new URL(path, this.address), { method, headers: sent, body: content, signal, cache: "no-store" });
    if (answer.status === 401 && again) {
      this.token = null;
      return this.request(method, path, { body, key, headers, signal }, false);
    }
    if (answer.headers.get("date")) this.ahead = Date.parse(answer.headers.get("date")) - Date.now();
    if (answer.status === 304) return null;
    const found = await answer.json();
    if (!answer.ok) throw new Refused(answer.status, found);
    if (answer.headers.get("etag")) store.set("etag", answer.headers.get("etag"));
    return found;
  }

  mine(path = "") {
    return `participants/${encodeURIComponent(this.participant)}${path}`;
  }

  // The study's texts; asked for again only when they may have changed.
  async content() {
    const known = store.get("content");
    const headers = known && store.get("etag") ? { "If-None-Match": store.get("etag") } : {};
    const found = await this.request("GET", "study/content", { headers });
    if (found) store.set("content", found);
    return found || known;
  }

  async bundle() {
    const found = await this.request("GET", this.mine("/bundle"));
    store.set("bundle", found);
    return found;
  }

  // A write is kept, with its key, until it is answered: it happens once, however often it is sent.
  enqueue(path, body) {
    const item = { key: crypto.randomUUID(), path, body };
    store.set("outbox", [...(store.get("outbox") || []), item]);
    return item.key;
  }

  // Send what is kept, in order; hands back what was answered, by key. Whatever is refused for good is dropped.
  async flush() {
    this.sending ??= this.#flush().finally(() => (this.sending = null));
    return this.sending;
  }

  async #flush() {
    const answered = new Map();
    for (let [item] = store.get("outbox") || []; item; [item] = store.get("outbox") || []) {
      try {
        answered.set(item.key, await this.request("POST", item.path, { body: item.body, key: item.key }));
      } catch (error) {
        if (!(error instanceof Refused) || AGAIN.has(error.status)) throw error;
        answered.set(item.key, error);
      }
      store.set("outbox", (store.get("outbox") || []).filter(({ key }) => key !== item.key));
    }
    return answered;
  }

  // What happens, as it does: one long poll after the other, from the last event that was seen.
  async *events(signal) {
    while (!signal.aborted) {
      const after = store.get("after");
      const query = after === null ? "" : `?after=${encodeURIComponent(after)}&wait=${SECONDS}`;
      const found = await this.request("GET", this.mine(`/events${query}`), { signal });
      yield found.items;
      store.set("after", found.next);
    }
  }
}
