/**
 * Returns what a terminal shows after this output, including the lines that have scrolled away: text with its formats, and
 * without control sequences. Knows the sequences that readline and our own output use.
 */
export function terminalScreen(output: string, columns: number): string {
  const lines: { character: string; format: string }[][] = [[]];
  let [row, column, format] = [0, 0, ""];
  const lineAt = (index: number) => {
    while (lines.length <= index) lines.push([]);
    return lines[index] as { character: string; format: string }[];
  };

  // biome-ignore lint/suspicious/noControlCharactersInRegex: control sequences begin with one
  for (const [token, count = "", letter] of output.matchAll(/\u001b\[([\d;]*)([A-Za-z])|[^\u001b]/gu)) {
    if (letter === "m") format = applyFormat(format, count);
    else if (letter === "A") row = Math.max(0, row - Number(count || 1));
    else if (letter === "B") row += Number(count || 1);
    else if (letter === "G") column = Number(count || 1) - 1;
    else if (letter === "J") lines.splice(row + 1, lines.length, ...(lineAt(row).splice(column) && []));
    else if (letter === "K") lineAt(row).splice(count === "2" ? 0 : column);
    else if (letter !== undefined) throw new Error(`Unknown control sequence ${JSON.stringify(token)}`);
    else if (token === "\r") column = 0;
    else if (token === "\n") [row, column] = [row + 1, 0];
    else {
      if (column === columns) [row, column] = [row + 1, 0];
      const line = lineAt(row);
      while (line.length < column) line.push({ character: " ", format: "" });
      line[column] = { character: token, format };
      column += 1;
    }
  }
  return `${lines.map(writeLine).join("\n").trimEnd()}\n`;
}

/** The sequence that ends each format. */
const endOf: Record<string, string> = { "1": "22", "3": "23" };

function applyFormat(current: string, code: string): string {
  const active = current.split(";").filter(Boolean);
  const isEnd = ["0", "", "22", "23", "39"].includes(code);
  const kept = active.filter(
    (one) => code !== "0" && code !== "" && (endOf[one] ?? "39") !== (isEnd ? code : (endOf[code] ?? "39")),
  );
  return [...kept, ...(isEnd ? [] : [code])].join(";");
}

function writeLine(line: readonly { character: string; format: string }[]): string {
  let [text, format] = ["", ""];
  for (const cell of line) {
    if (cell.format !== format) text += `${format && "\u001b[0m"}${cell.format && `\u001b[${cell.format}m`}`;
    text += cell.character;
    format = cell.format;
  }
  return `${text}${format && "\u001b[0m"}`.trimEnd();
}
