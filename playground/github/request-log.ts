/** One request that the app made. */
export interface RequestRecord {
  at: Date;
  method: string;
  /** As it was sent, with the query. */
  path: string;
  /** GitHub's name, such as `POST /repos/{owner}/{repo}/pulls` or `git-receive-pack`; undefined if not implemented here. */
  operation: string | undefined;
  body: unknown;
  /** Undefined until the request is answered; it stays undefined when the connection was dropped. */
  status: number | undefined;
}

/** The response a test injects in place of the real one. */
export interface InjectedResponse {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}

/** Replaces the response, drops the connection, or lets the request pass. */
export type Interceptor = (
  request: RequestRecord,
) => InjectedResponse | "drop" | undefined | Promise<InjectedResponse | "drop" | undefined>;

const maxRecords = 10_000;

/** Records the app's requests and lets tests intercept them. */
export class RequestLog {
  readonly records: RequestRecord[] = [];
  readonly #beforeRequest = new Set<Interceptor>();
  readonly #afterWrite = new Set<Interceptor>();

  add(request: Pick<RequestRecord, "method" | "path" | "operation" | "body">): RequestRecord {
    const record = { ...request, at: new Date(), status: undefined };
    this.records.push(record);
    if (this.records.length > maxRecords) this.records.shift();
    return record;
  }

  /** Registers an interceptor that is called before a request is carried out. Returns a function that removes it. */
  onRequest(interceptor: Interceptor): () => void {
    return register(this.#beforeRequest, interceptor);
  }

  /** Registers an interceptor that is called after a write, before the response. Returns a function that removes it. */
  afterWrite(interceptor: Interceptor): () => void {
    return register(this.#afterWrite, interceptor);
  }

  before(request: RequestRecord): Promise<InjectedResponse | "drop" | undefined> {
    return firstOf(this.#beforeRequest, request);
  }

  after(request: RequestRecord): Promise<InjectedResponse | "drop" | undefined> {
    return firstOf(this.#afterWrite, request);
  }
}

function register(interceptors: Set<Interceptor>, interceptor: Interceptor): () => void {
  interceptors.add(interceptor);
  return () => interceptors.delete(interceptor);
}

async function firstOf(
  interceptors: Set<Interceptor>,
  request: RequestRecord,
): Promise<InjectedResponse | "drop" | undefined> {
  for (const interceptor of interceptors) {
    const injected = await interceptor(request);
    if (injected) return injected === "drop" ? injected : { body: {}, ...injected };
  }
  return undefined;
}
