import { type Html, html } from "./html.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches the escape sequences that set terminal colors
const colorSequence = /\u001B\[([0-9;]{0,40})m/g;
const colorNames = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** Renders the output of a command with its colors. Drops other escape sequences. */
export function renderTerminal(content: string): Html {
  let style = "";
  const pieces = content.split(colorSequence).map((piece, index) => {
    if (index % 2 === 1) {
      style = styleAfter(style, piece);
      return undefined;
    }
    return style === "" ? piece : html`<span class="${style}">${piece}</span>`;
  });
  return html`<pre class="terminal">${pieces}</pre>`;
}

/** Returns the classes in effect after these codes: a color and bold. */
function styleAfter(before: string, codes: string): string {
  let [tint, bold] = [/ansi-(?!bold)\w+/.exec(before)?.[0] ?? "", before.includes("ansi-bold")];
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) [tint, bold] = ["", false];
    if (code === 1) bold = true;
    if (code === 22) bold = false;
    if (code === 39) tint = "";
    if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) tint = `ansi-${colorNames[code % 10]}`;
  }
  return [tint, bold && "ansi-bold"].filter(Boolean).join(" ");
}
