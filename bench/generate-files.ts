/** Generates source files by path, the same on every machine: 50 bytes per line, and a `needle` in every hundredth file. */
export function generateFiles(count: number, { seed = 1, linesEach = 50 } = {}): Record<string, string> {
  const random = randomNumbers(seed);
  const word = () => words[Math.floor(random() * words.length)] ?? "";
  const files: Record<string, string> = { "README.md": "# Generated\n\nFor measuring.\n" };
  for (let index = 1; index < count; index += 1) {
    const path = `src/area-${index % 20}/part-${index % 7}/file-${index}.ts`;
    const lines = Array.from(
      { length: linesEach },
      (_, line) => `export const ${word()}_${line} = "${word()} ${word()}";`,
    );
    if (index % 100 === 0) lines.push("// needle");
    files[path] = `${lines.join("\n")}\n`;
  }
  return files;
}

const words = ["ledger", "parcel", "winter", "copper", "meadow", "signal", "harbor", "violet", "engine", "thread"];

/** Mulberry32, a seeded generator of numbers from 0 to 1. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
