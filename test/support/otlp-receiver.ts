import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId: string;
  name: string;
  startedAt: number;
  endedAt: number;
  attributes: Record<string, string | number | boolean>;
  isError: boolean;
}

export interface OtlpReceiver {
  /** The value for OTEL_EXPORTER_OTLP_ENDPOINT. */
  url: string;
  readonly spans: ReceivedSpan[];
  /** The names of the metrics that were received. */
  readonly metrics: Set<string>;
  /** Resolves when `isReached` returns true. */
  until(isReached: () => boolean): Promise<void>;
  close(): Promise<void>;
}

/** Starts an OpenTelemetry collector on loopback that reads OTLP over HTTP with protobuf. It refuses the first metrics. */
export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  let hasRefused = false;
  const spans: ReceivedSpan[] = [];
  const metrics = new Set<string>();
  let received = Promise.withResolvers<void>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    if (request.url === "/v1/metrics" && !hasRefused) {
      hasRefused = true;
      response.writeHead(400).end();
      return;
    }
    const sent = Buffer.concat(chunks);
    const body = request.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
    if (request.url === "/v1/traces") spans.push(...readSpans(body));
    if (request.url === "/v1/metrics") for (const name of readMetricNames(body)) metrics.add(name);
    response.writeHead(200, { "content-type": "application/x-protobuf" }).end();
    received.resolve();
    received = Promise.withResolvers();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans,
    metrics,
    until: async (isReached) => {
      while (!isReached()) await received.promise;
    },
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The fields of a protobuf message by field number: numbers, or the bytes of strings and messages. */
type Message = Map<number, (number | bigint | Buffer)[]>;

// The field numbers are those of opentelemetry-proto.
function readSpans(body: Buffer): ReceivedSpan[] {
  return messagesIn(readMessage(body), 1)
    .flatMap((resource) => messagesIn(resource, 2))
    .flatMap((scope) => messagesIn(scope, 2))
    .map((span) => ({
      traceId: bytesIn(span, 1).toString("hex"),
      spanId: bytesIn(span, 2).toString("hex"),
      parentSpanId: bytesIn(span, 4).toString("hex"),
      name: bytesIn(span, 5).toString("utf8"),
      startedAt: Number(span.get(7)?.[0] ?? 0) / 1e6,
      endedAt: Number(span.get(8)?.[0] ?? 0) / 1e6,
      attributes: Object.fromEntries(
        messagesIn(span, 9).map((attribute) => [bytesIn(attribute, 1).toString("utf8"), readValue(attribute)]),
      ),
      isError: messagesIn(span, 15).some((status) => status.get(3)?.[0] === 2),
    }));
}

function readMetricNames(body: Buffer): string[] {
  return messagesIn(readMessage(body), 1)
    .flatMap((resource) => messagesIn(resource, 2))
    .flatMap((scope) => messagesIn(scope, 2))
    .map((metric) => bytesIn(metric, 1).toString("utf8"));
}

function readValue(attribute: Message): string | number | boolean {
  const [value = new Map()] = messagesIn(attribute, 2);
  const [field = 0, [content = 0] = []] = [...value][0] ?? [];
  if (Buffer.isBuffer(content)) return content.toString("utf8");
  return field === 2 ? content === 1 : Number(content);
}

function messagesIn(message: Message, field: number): Message[] {
  return (message.get(field) ?? []).flatMap((value) => (Buffer.isBuffer(value) ? [readMessage(value)] : []));
}

function bytesIn(message: Message, field: number): Buffer {
  const [value] = message.get(field) ?? [];
  return Buffer.isBuffer(value) ? value : Buffer.alloc(0);
}

function readMessage(bytes: Buffer): Message {
  const message: Message = new Map();
  let at = 0;
  const varint = (): number => {
    let value = 0;
    for (let shift = 1; ; shift *= 128) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 127) * shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = varint();
    const values = message.get(tag >> 3) ?? [];
    message.set(tag >> 3, values);
    switch (tag & 7) {
      case 0:
        values.push(varint());
        break;
      case 1:
        // Times are integers. The only other eight-byte values are those of attributes.
        values.push(isAttributeValue(tag) ? bytes.readDoubleLE(at) : bytes.readBigUInt64LE(at));
        at += 8;
        break;
      case 2: {
        const length = varint();
        values.push(bytes.subarray(at, at + length));
        at += length;
        break;
      }
      case 5:
        values.push(bytes.readUInt32LE(at));
        at += 4;
        break;
      default:
        throw new Error(`Unknown wire type ${tag & 7}`);
    }
  }
  return message;
}

function isAttributeValue(tag: number): boolean {
  return tag >> 3 === 4;
}
