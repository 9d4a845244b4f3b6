import { stripVTControlCharacters } from "node:util";
import markdownIt, { type Token } from "markdown-it";
import wrapAnsi from "wrap-ansi";
import { type Style, visible } from "./style.ts";

const markdown = markdownIt({ html: false, linkify: false });

/** Renders Markdown as lines of at most `columns` characters. Nothing in the text can control the terminal. */
export function markdownToAnsi(text: string, { style, columns }: { style: Style; columns: number }): string[] {
  const renderer = new MarkdownRenderer(style, Math.max(20, columns));
  return renderer.render(markdown.parse(visible(text), {}));
}

interface List {
  /** The number of the next item; undefined for a bulleted list. */
  next: number | undefined;
}

class MarkdownRenderer {
  readonly #style: Style;
  readonly #columns: number;
  readonly #lines: string[] = [];
  readonly #lists: List[] = [];
  #quoteDepth = 0;
  #headingLevel = 0;
  /** The marker of a list item whose first line has not been written yet. */
  #marker = "";
  #rows: string[][] | undefined;

  constructor(style: Style, columns: number) {
    this.#style = style;
    this.#columns = columns;
  }

  render(tokens: readonly Token[]): string[] {
    for (const token of tokens) this.#token(token);
    while (this.#lines.at(-1) === "") this.#lines.pop();
    return this.#lines;
  }

  #token(token: Token): void {
    switch (token.type) {
      case "heading_open":
        this.#headingLevel = Number(token.tag.slice(1));
        break;
      case "heading_close":
        this.#headingLevel = 0;
        this.#blankLine();
        break;
      case "paragraph_close":
        if (!token.hidden) this.#blankLine();
        break;
      case "bullet_list_open":
        this.#lists.push({ next: undefined });
        break;
      case "ordered_list_open":
        this.#lists.push({ next: Number(token.attrGet("start") ?? 1) });
        break;
      case "bullet_list_close":
      case "ordered_list_close":
        this.#lists.pop();
        if (this.#lists.length === 0) this.#blankLine();
        break;
      case "list_item_open":
        this.#marker = this.#nextMarker();
        break;
      case "blockquote_open":
        this.#quoteDepth++;
        break;
      case "blockquote_close":
        this.#quoteDepth--;
        this.#blankLine();
        break;
      case "fence":
      case "code_block":
        for (const line of token.content.replace(/\n$/, "").split("\n")) this.#write(this.#style("cyan", line), false);
        this.#blankLine();
        break;
      case "hr":
        this.#write(this.#style("gray", "─".repeat(20)), false);
        this.#blankLine();
        break;
      case "table_open":
        this.#rows = [];
        break;
      case "tr_open":
        this.#rows?.push([]);
        break;
      case "table_close":
        this.#writeTable(this.#rows ?? []);
        this.#rows = undefined;
        break;
      case "inline":
        this.#inline(token.children ?? []);
        break;
    }
  }

  #inline(tokens: readonly Token[]): void {
    const links: string[] = [];
    const open = { strong: 0, em: 0 };
    const text = tokens.map((token) => this.#inlineText(token, open, links)).join("");
    const row = this.#rows?.at(-1);
    if (row) row.push(text);
    else this.#write(this.#headingLevel > 0 ? this.#style("bold", text) : text);
  }

  #inlineText(token: Token, open: { strong: number; em: number }, links: string[]): string {
    if (token.tag === "strong" || token.tag === "em") open[token.tag] += token.nesting;
    switch (token.type) {
      case "text": {
        // Markdown has replaced entities such as `&#13;` by their characters.
        const shown = visible(token.content).replaceAll("\n", " ");
        const text = open.strong > 0 ? this.#style("bold", shown) : shown;
        return open.em > 0 ? this.#style("italic", text) : text;
      }
      case "code_inline":
        return this.#style("cyan", token.content);
      case "softbreak":
        return " ";
      case "hardbreak":
        return "\n";
      case "link_open":
        links.push(String(token.attrGet("href") ?? ""));
        return "";
      case "link_close":
        return this.#style("gray", ` (${links.pop()})`);
      case "image":
        return `${token.content}${this.#style("gray", ` (${token.attrGet("src") ?? ""})`)}`;
      default:
        return "";
    }
  }

  #nextMarker(): string {
    const list = this.#lists.at(-1);
    if (list?.next === undefined) return "• ";
    const marker = `${list.next}. `;
    list.next++;
    return marker;
  }

  #write(text: string, wraps = true): void {
    const quote = this.#style("gray", "│ ").repeat(this.#quoteDepth);
    const indent = "  ".repeat(Math.max(0, this.#lists.length - 1));
    const marker = this.#marker;
    const rest = " ".repeat(this.#lists.length > 0 ? Math.max(2, marker.length) : 0);
    const width = this.#columns - indent.length - rest.length - 2 * this.#quoteDepth;
    const lines = wraps ? wrapAnsi(text, width, { hard: true }).split("\n") : [text];
    for (const [index, line] of lines.entries()) {
      this.#lines.push(`${quote}${indent}${index === 0 && marker ? marker : rest}${line}`);
    }
    this.#marker = "";
  }

  #writeTable(rows: readonly string[][]): void {
    const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => widthOf(row[column]))));
    for (const [index, row] of rows.entries()) {
      const cells = row.map((cell, column) => cell + " ".repeat((widths[column] ?? 0) - widthOf(cell)));
      this.#write(cells.join("  ").trimEnd(), false);
      if (index === 0) this.#write(widths.map((width) => "─".repeat(width)).join("  "), false);
    }
    this.#blankLine();
  }

  #blankLine(): void {
    if (this.#lines.length > 0 && this.#lines.at(-1) !== "") this.#lines.push("");
  }
}

function widthOf(cell = ""): number {
  return stripVTControlCharacters(cell).length;
}
