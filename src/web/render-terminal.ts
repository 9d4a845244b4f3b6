import { type Html, html } from "./html.ts";

// biome-ignore lint/suspicious/noControlCharactersInRegex: this is what colours a terminal
const colour = /\u001B\[([0-9;]{0,40})m/g;
const colours = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** What a command printed, in its colours. Every other escape is gone. */
export function renderTerminal(content: string): Html {
  let style = "";
  const pieces = content.split(colour).map((piece, index) => {
    if (index % 2 === 1) {
      style = styleAfter(style, piece);
      return undefined;
    }
    return style === "" ? piece : html`<span class="${style}">${piece}</span>`;
  });
  return html`<pre class="terminal">${pieces}</pre>`;
}

/** The classes that hold after these codes: a colour and whether it is bold. */
function styleAfter(before: string, codes: string): string {
  let [tint, bold] = [/ansi-(?!bold)\w+/.exec(before)?.[0] ?? "", before.includes("ansi-bold")];
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) [tint, bold] = ["", false];
    if (code === 1) bold = true;
    if (code === 22) bold = false;
    if (code === 39) tint = "";
    if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) tint = `ansi-${colours[code % 10]}`;
  }
  return [tint, bold && "ansi-bold"].filter(Boolean).join(" ");
}
