const types = { file: "0", link: "1", symlink: "2", device: "3", pipe: "6" };

interface Entry {
  text?: string;
  type?: keyof typeof types;
  link?: string;
  /** The size in the header, if it should be wrong. */
  size?: number;
}

/** Creates an entry of a tar archive. Nothing is validated, so that tests can create hostile ones. */
export function entry(name: string, { text = "", type = "file", link = "", size = text.length }: Entry): Buffer {
  const header = Buffer.alloc(512);
  const fields: [string, number][] = [
    [name, 0],
    ["0000644\0", 100],
    ["0000000\0", 108],
    ["0000000\0", 116],
    [`${size.toString(8).padStart(11, "0")}\0`, 124],
    ["00000000000\0", 136],
    ["        ", 148],
    [types[type], 156],
    [link, 157],
    ["ustar\x0000", 257],
  ];
  for (const [field, at] of fields) header.write(field, at);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return Buffer.concat([header, Buffer.alloc(Math.ceil(text.length / 512) * 512, 0).fill(text, 0, text.length)]);
}

export function archive(...entries: Buffer[]): Buffer {
  return Buffer.concat([...entries, Buffer.alloc(1_024)]);
}
