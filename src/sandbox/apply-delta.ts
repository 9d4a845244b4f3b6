/** Returns the size of the object that a delta produces. */
export function deltaResultSize(delta: Buffer): number {
  return readSizes(delta).result;
}

/** Applies a git delta to its base, at once or in parts. Throws an Error when the delta is damaged. */
export class DeltaApplier {
  readonly #delta: Buffer;
  readonly #base: Buffer;
  readonly #result: Buffer;
  #at: number;
  #filled = 0;

  constructor(delta: Buffer, base: Buffer) {
    const sizes = readSizes(delta);
    if (sizes.base !== base.length) throw damagedDelta("does not match its base");
    this.#delta = delta;
    this.#base = base;
    this.#result = Buffer.allocUnsafe(sizes.result);
    this.#at = sizes.at;
  }

  /** Applies instructions until about `maxBytes` of the delta and the result are processed. Returns true if more are left. */
  apply(maxBytes = Number.POSITIVE_INFINITY): boolean {
    // Applying an instruction takes about as long as copying this many bytes.
    const instructionBytes = 64;
    for (let done = 0; this.#at < this.#delta.length && done < maxBytes; done += instructionBytes) {
      const from = this.#next();
      if (this.#filled + from.length > this.#result.length) throw damagedDelta("is longer than its header says");
      this.#filled += from.copy(this.#result, this.#filled);
      done += from.length;
    }
    return this.#at < this.#delta.length;
  }

  result(): Buffer {
    if (this.#filled !== this.#result.length) throw damagedDelta("ends too early");
    return this.#result;
  }

  /** Returns the bytes that the next instruction adds. */
  #next(): Buffer {
    const delta = this.#delta;
    const code = delta[this.#at++] ?? 0;
    if (!(code & 128)) {
      const start = this.#at;
      if (code === 0 || start + code > delta.length) throw damagedDelta("has an invalid instruction");
      this.#at += code;
      return delta.subarray(start, start + code);
    }
    let offset = 0;
    let size = 0;
    for (let bit = 0; bit < 4; bit++) if (code & (1 << bit)) offset += (delta[this.#at++] ?? 0) * 256 ** bit;
    for (let bit = 0; bit < 3; bit++) if (code & (16 << bit)) size += (delta[this.#at++] ?? 0) * 256 ** bit;
    size ||= 0x10000;
    if (offset + size > this.#base.length) throw damagedDelta("copies from beyond its base");
    return this.#base.subarray(offset, offset + size);
  }
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
