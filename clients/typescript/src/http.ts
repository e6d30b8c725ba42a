/** Settings of a client. */
export interface NacreOptions {
  /** Address that `nacre serve` prints, such as `http://127.0.0.1:8750`. */
  url: string;
  /** A key from `nacre keys create`. */
  key: string;
  /** Memory of all calls that name none: `user` (default), `project:NAME`, `team:NAME` or `agent:NAME`. */
  space?: string;
  /** Time for one request, and the longest pause before it is repeated; default: 60,000. */
  timeoutMs?: number;
  /** How often a request is repeated if the server is busy or cannot be reached; default: 2. */
  retries?: number;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch;
}

export interface CallOptions {
  /** Memory of this call. */
  space?: string;
  signal?: AbortSignal;
}

export interface WriteOptions extends CallOptions {
  /** `etag` of the answer that the change is based on; 409 if the memory has changed since. */
  ifMatch?: string;
  /** A repeated call with the same key is not done again for a day; default: a new one for each call. */
  idempotencyKey?: string;
}

/** An answer, with the ETag if the server sent one. */
export type Answer<T> = T & { etag?: string };

type Query = Record<string, string | number | boolean | undefined>;

const BUSY = new Set([429, 503]);
const PAUSE_MS = 500;

/** The server refused a request, or could not be reached (status 0). */
export class NacreError extends Error {
  override name = "NacreError";

  constructor(
    /** One line that says what to do. */
    message: string,
    readonly status: number,
    readonly title = "",
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** Requests with a key, a timeout and retries. */
export class Http {
  readonly #options: Required<NacreOptions>;

  constructor(options: NacreOptions) {
    // Typed as texts, but often variables of the environment that are not set.
    const { url = "", key = "", space = "", timeoutMs = 60_000, retries = 2 } = options;
    if (!/^https?:\/\//i.test(url)) {
      throw new NacreError(`the address is ${JSON.stringify(url)}; it must begin with http:// or https://`, 0);
    }
    if (!/^[!-~]+$/.test(key.trim())) {
      throw new NacreError("a server needs a key; `nacre keys create` makes one there", 0);
    }
    const send: typeof fetch = options.fetch ?? ((...given) => fetch(...given));
    this.#options = { url: url.replace(/\/+$/, ""), key: key.trim(), space, timeoutMs, retries, fetch: send };
  }

  protected async call<T>(
    method: string,
    path: string,
    options: WriteOptions,
    sent: { query?: Query; body?: unknown; writes?: boolean } = {},
  ): Promise<Answer<T>> {
    const headers: Record<string, string> = { authorization: `Bearer ${this.#options.key}` };
    if (sent.body !== undefined) headers["content-type"] = "application/json";
    if (options.ifMatch) headers["if-match"] = options.ifMatch;
    // A write has a key, so that a repeated one is done once.
    if (sent.writes) headers["idempotency-key"] = options.idempotencyKey ?? crypto.randomUUID();
    const body = sent.body === undefined ? undefined : JSON.stringify(sent.body);
    const address = this.#address(path, { ...sent.query, space: options.space || this.#options.space });
    for (let left = this.#options.retries; ; left--) {
      const waited = await this.#once<T>(address, { method, headers, body }, options.signal, left > 0);
      if (typeof waited !== "number") return waited;
      await pause(waited, options.signal);
      options.signal?.throwIfAborted();
    }
  }

  /** The answer, or the milliseconds to wait before the request is repeated. */
  async #once<T>(
    address: string,
    request: RequestInit,
    signal: AbortSignal | undefined,
    mayRepeat: boolean,
  ): Promise<Answer<T> | number> {
    const limit = AbortSignal.timeout(this.#options.timeoutMs);
    let response: Response;
    let text: string;
    try {
      response = await this.#options.fetch(address, {
        ...request,
        signal: signal ? AbortSignal.any([signal, limit]) : limit,
      });
      text = await response.text();
    } catch (error) {
      if (signal?.aborted) throw error;
      if (mayRepeat && !limit.aborted) return PAUSE_MS;
      const why = limit.aborted ? `no answer within ${this.#options.timeoutMs} ms` : "it cannot be reached";
      throw new NacreError(`${this.#options.url}: ${why}`, 0, "", { cause: error });
    }
    if (BUSY.has(response.status) && mayRepeat) {
      const wanted = Number(response.headers.get("retry-after") ?? 0) * 1000 || PAUSE_MS;
      if (wanted <= this.#options.timeoutMs) return wanted;
    }
    return this.#read<T>(response, text);
  }

  #read<T>(response: Response, text: string): Answer<T> {
    let said: any;
    try {
      said = JSON.parse(text);
    } catch {
      said = null;
    }
    if (said === null || typeof said !== "object") {
      throw new NacreError(
        `${this.#options.url} answered ${response.status} without JSON; is it nacre's address?`,
        response.status,
      );
    }
    if (!response.ok) throw new NacreError(said.detail ?? response.statusText, response.status, said.title);
    const etag = response.headers.get("etag");
    return etag ? { ...said, etag } : said;
  }

  #address(path: string, query: Query): string {
    const words = new URLSearchParams();
    for (const [name, value] of Object.entries(query)) {
      if (value !== undefined && value !== "") words.set(name, String(value));
    }
    return `${this.#options.url}${path}${words.size ? `?${words}` : ""}`;
  }
}

/** Wait, or until the signal is aborted. */
function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resume) => {
    if (signal?.aborted) return resume();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resume();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}
