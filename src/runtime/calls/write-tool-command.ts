import type { ParsedCommand } from "#ui/command.ts";

/** The line that `parseCommand` reads as these options of this tool. */
export function writeCommand(tool: string, options: ParsedCommand["options"]): string {
  return [`/tool ${tool}`, ...Object.entries(options).map(([name, value]) => writeOption(name, value))].join(" ");
}

function writeOption(name: string, value: string | boolean): string {
  const option = name.length === 1 ? `-${name}` : `--${name}`;
  if (typeof value === "boolean") return option;
  return isPlain(value) ? `${option} ${value}` : `${option}="${value.replace(/["\\]/g, "\\$&")}"`;
}

function isPlain(value: string): boolean {
  return /^[\w./:@+,][\w./:@+,-]*$/.test(value);
}
