/** The size of the object that a delta makes. */
export function deltaResultSize(delta: Buffer): number {
  return readSizes(delta).result;
}

/** Applies a git delta to its base. Throws an Error when the delta is damaged. */
export function applyDelta(delta: Buffer, base: Buffer): Buffer {
  const sizes = readSizes(delta);
  if (sizes.base !== base.length) throw damagedDelta("does not match its base");

  const result = Buffer.allocUnsafe(sizes.result);
  let at = sizes.at;
  let filled = 0;
  while (at < delta.length) {
    const code = delta[at++] ?? 0;
    let from: Buffer;
    if (code & 128) {
      let offset = 0;
      let size = 0;
      for (let bit = 0; bit < 4; bit++) if (code & (1 << bit)) offset += (delta[at++] ?? 0) * 256 ** bit;
      for (let bit = 0; bit < 3; bit++) if (code & (16 << bit)) size += (delta[at++] ?? 0) * 256 ** bit;
      size ||= 0x10000;
      if (offset + size > base.length) throw damagedDelta("copies from beyond its base");
      from = base.subarray(offset, offset + size);
    } else {
      if (code === 0 || at + code > delta.length) throw damagedDelta("has an invalid instruction");
      from = delta.subarray(at, at + code);
      at += code;
    }
    if (filled + from.length > result.length) throw damagedDelta("is longer than its header says");
    filled += from.copy(result, filled);
  }
  if (filled !== result.length) throw damagedDelta("ends too early");
  return result;
}

function readSizes(delta: Buffer): { base: number; result: number; at: number } {
  let at = 0;
  const next = () => {
    let value = 0;
    for (let factor = 1; ; factor *= 128) {
      const byte = delta[at++];
      if (byte === undefined) throw damagedDelta("ends too early");
      value += (byte & 127) * factor;
      if (!(byte & 128)) return value;
    }
  };
  return { base: next(), result: next(), at };
}

function damagedDelta(problem: string): Error {
  return new Error(`The pack from the git server is damaged: a delta ${problem}.`);
}
