/** One packet of git's protocol: data, or one of the three marks between data. */
export type Packet = Buffer | "flush" | "delimiter" | "end";

const marks: Record<string, Packet> = { "0000": "flush", "0001": "delimiter", "0002": "end" };
const lengthBytes = 4;

export const flushPacket = Buffer.from("0000");
export const delimiterPacket = Buffer.from("0001");

export function encodePacket(text: string): Buffer {
  const data = Buffer.from(text);
  return Buffer.concat([Buffer.from((data.length + lengthBytes).toString(16).padStart(lengthBytes, "0")), data]);
}

/** Splits a response into packets as it arrives, without copying complete ones. Throws an Error for anything else. */
export async function* readPackets(response: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Packet> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of response) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (at + lengthBytes <= rest.length) {
      const head = rest.toString("latin1", at, at + lengthBytes);
      const mark = marks[head];
      const size = mark ? lengthBytes : /^[0-9a-f]{4}$/i.test(head) ? Number.parseInt(head, 16) : 0;
      if (size < lengthBytes) throw new Error("The response is not in the git server's protocol.");
      if (at + size > rest.length) break;
      yield mark ?? rest.subarray(at + lengthBytes, at + size);
      at += size;
    }
    rest = rest.subarray(at);
  }
  if (rest.length > 0) throw new Error("The git server's response is cut off.");
}

/** Splits a complete response into packets. */
export function parsePackets(response: Buffer): Promise<Packet[]> {
  return Array.fromAsync(readPackets([response]));
}

/** Yields the data of the side band. Passes the server's messages to `onMessage`, and throws what it reports as an error. */
export async function* readSideBand(
  packets: AsyncIterable<Packet> | Iterable<Packet>,
  onMessage: (message: Buffer) => void = () => {},
): AsyncGenerator<Buffer> {
  for await (const packet of packets) {
    if (typeof packet === "string") continue;
    if (packet[0] === 1) yield packet.subarray(1);
    if (packet[0] === 2) onMessage(packet.subarray(1));
    if (packet[0] === 3) throw new Error(`The git server reported an error: ${packet.toString("utf8", 1).trim()}`);
  }
}
