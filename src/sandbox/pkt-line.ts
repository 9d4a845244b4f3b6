/** One packet of git's protocol: data, or one of the three marks between data. */
export type Packet = Buffer | "flush" | "delimiter" | "end";

const marks: Record<string, Packet> = { "0000": "flush", "0001": "delimiter", "0002": "end" };

export const flushPacket = Buffer.from("0000");
export const delimiterPacket = Buffer.from("0001");

export function encodePacket(text: string): Buffer {
  const data = Buffer.from(text);
  return Buffer.concat([Buffer.from((data.length + 4).toString(16).padStart(4, "0")), data]);
}

/** Splits an answer into its packets without copying. Throws an Error for what is none of git's. */
export function parsePackets(answer: Buffer): Packet[] {
  const packets: Packet[] = [];
  for (let at = 0; at < answer.length; ) {
    const head = answer.toString("latin1", at, at + 4);
    const mark = marks[head];
    if (mark) {
      packets.push(mark);
      at += 4;
      continue;
    }
    const size = /^[0-9a-f]{4}$/i.test(head) ? Number.parseInt(head, 16) : 0;
    if (size < 4 || at + size > answer.length) throw new Error("The git server's answer is cut off or not git's.");

    packets.push(answer.subarray(at + 4, at + size));
    at += size;
  }
  return packets;
}

/** Splits what came over the side band: the data, and what the server said in words. Throws what it reports as an error. */
export function parseSideBand(packets: readonly Packet[]): { data: Buffer; words: string } {
  const data: Buffer[] = [];
  const words: Buffer[] = [];
  for (const packet of packets) {
    if (typeof packet === "string") continue;
    if (packet[0] === 1) data.push(packet.subarray(1));
    if (packet[0] === 2) words.push(packet.subarray(1));
    if (packet[0] === 3) throw new Error(`The git server stopped: ${packet.toString("utf8", 1).trim()}`);
  }
  return { data: Buffer.concat(data), words: Buffer.concat(words).toString("utf8") };
}
