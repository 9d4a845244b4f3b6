import markdownIt, { type StateCore, type Token } from "markdown-it";
import sanitizeHtml from "sanitize-html";
import { truncateMarkdown } from "./truncate.ts";

const markdown = markdownIt({ html: true, linkify: true, breaks: true });
markdown.core.ruler.push("references", linkReferences);

/** Characters. The HTML sanitizer takes quadratic time for unclosed tags. */
const maxLength = 60_000;

/** Renders Markdown as on an issue at `address`, without scripts, styles, forms and images. Shortens long text. */
export function markdownToHtml(text: string, address: string): string {
  return sanitizeHtml(renderTasks(markdown.render(truncateMarkdown(text, maxLength), { address })), {
    allowedTags: [
      ...["h1", "h2", "h3", "h4", "h5", "h6", "p", "br", "hr", "blockquote", "ul", "ol", "li"],
      ...["a", "strong", "b", "em", "i", "s", "del", "ins", "sub", "sup", "kbd", "code", "pre", "span"],
      ...["table", "thead", "tbody", "tr", "th", "td", "details", "summary"],
    ],
    allowedAttributes: {
      a: ["href", "title", "rel"],
      code: [{ name: "class", multiple: true, values: ["language-diff"] }],
      span: [{ name: "class", values: ["task-done", "task-open"] }],
      ol: ["start"],
      details: ["open"],
      table: ["tabindex"],
      th: ["align"],
      td: ["align"],
    },
    allowedSchemes: ["http", "https", "mailto"],
    disallowedTagsMode: "discard",
    transformTags: {
      a: (_, attributes) => ({ tagName: "a", attribs: resolveLink(attributes, address) }),
      // A wide table scrolls, also by keyboard.
      table: sanitizeHtml.simpleTransform("table", { tabindex: "0" }),
    },
    nestingLimit: 100,
  });
}

/** Relative links point to the repository, never to the page that shows the text. */
function resolveLink(attributes: Record<string, string>, address: string): Record<string, string> {
  const { href = "", ...others } = attributes;
  const canResolve = URL.canParse(address) && URL.canParse(href, `${address}/`);
  return {
    ...others,
    href: canResolve ? new URL(href, `${address}/`).href : href,
    rel: "nofollow noopener noreferrer",
  };
}

/** Renders the check boxes of task lists: `- [x] done`. */
function renderTasks(html: string): string {
  return html.replace(/(<li>(?:\s*<p>)?)\[([ xX])\] /g, (_, start: string, mark: string) => {
    const done = mark !== " ";
    return `${start}<span class="${done ? "task-done" : "task-open"}">${done ? "☑" : "☐"}</span> `;
  });
}

/** Links `#12` to that issue or pull request, except in links and code. */
function linkReferences({ tokens, env, Token }: StateCore): void {
  for (const block of tokens) {
    let depth = 0;
    block.children = (block.children ?? []).flatMap((token) => {
      if (token.type === "link_open" || token.type === "link_close") depth += token.nesting;
      return token.type === "text" && depth === 0 ? splitReferences(token) : [token];
    });
  }

  function splitReferences(token: Token): Token[] {
    return token.content.split(/(?<![\w&])(#\d{1,9})\b/).flatMap((part, index) => {
      if (index % 2 === 0) return part === "" ? [] : [textToken(part)];
      const open = new Token("link_open", "a", 1);
      open.attrSet("href", `${env.address}/issues/${part.slice(1)}`);
      return [open, textToken(part), new Token("link_close", "a", -1)];
    });
  }

  function textToken(content: string): Token {
    const token = new Token("text", "", 0);
    token.content = content;
    return token;
  }
}
