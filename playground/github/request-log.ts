/** One request the app made. */
export interface RequestRecord {
  at: Date;
  method: string;
  /** As it came, with the query. */
  path: string;
  /** GitHub's name of it, such as `POST /repos/{owner}/{repo}/pulls`, or `git-receive-pack`; undefined when it is not known here. */
  operation: string | undefined;
  body: unknown;
  /** Undefined until it is answered, and for good when the connection was dropped. */
  status: number | undefined;
}

/** What a test does to a request: another answer, or no answer at all. */
type InjectedResponse = { status: number; body?: unknown; headers?: Record<string, string> } | "drop";

type Interceptor = (request: RequestRecord) => InjectedResponse | undefined | Promise<InjectedResponse | undefined>;

export interface RequestLog {
  readonly records: readonly RequestRecord[];
  add(request: Pick<RequestRecord, "method" | "path" | "operation" | "body">): RequestRecord;
  /** Called before a request is carried out. Returns what takes it away again. */
  onRequest(intervene: Interceptor): () => void;
  /** Called when a write is done and before it is answered. Returns what takes it away again. */
  afterWrite(intervene: Interceptor): () => void;
  before(request: RequestRecord): Promise<InjectedResponse | undefined>;
  after(request: RequestRecord): Promise<InjectedResponse | undefined>;
}

const maxRecords = 10_000;

export function createRequestLog(): RequestLog {
  const records: RequestRecord[] = [];
  const beforeAll = new Set<Interceptor>();
  const afterAll = new Set<Interceptor>();
  return {
    records,
    add: (request) => {
      const record = { ...request, at: new Date(), status: undefined };
      records.push(record);
      if (records.length > maxRecords) records.shift();
      return record;
    },
    onRequest: (intervene) => register(beforeAll, intervene),
    afterWrite: (intervene) => register(afterAll, intervene),
    before: (request) => ask(beforeAll, request),
    after: (request) => ask(afterAll, request),
  };
}

function register(all: Set<Interceptor>, intervene: Interceptor): () => void {
  all.add(intervene);
  return () => all.delete(intervene);
}

async function ask(all: Set<Interceptor>, request: RequestRecord): Promise<InjectedResponse | undefined> {
  for (const intervene of all) {
    const intervention = await intervene(request);
    if (intervention) return intervention;
  }
  return undefined;
}
