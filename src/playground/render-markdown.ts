import markdownIt from "markdown-it";
import sanitizeHtml from "sanitize-html";

const markdown = markdownIt({ html: true, linkify: true, breaks: true });

/** Markdown as an issue shows it, in HTML that is safe to put into a page: scripts, styles, forms and images are gone. */
export function renderMarkdown(text: string): string {
  return sanitizeHtml(tickTasks(markdown.render(text)), {
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
      th: ["align"],
      td: ["align"],
    },
    allowedSchemes: ["http", "https", "mailto"],
    disallowedTagsMode: "discard",
    transformTags: { a: sanitizeHtml.simpleTransform("a", { rel: "nofollow noopener noreferrer" }) },
    nestingLimit: 100,
  });
}

/** GitHub's task lists: `- [x] done`. */
function tickTasks(html: string): string {
  return html.replace(/(<li>(?:\s*<p>)?)\[([ xX])\] /g, (_, start: string, mark: string) => {
    const done = mark !== " ";
    return `${start}<span class="${done ? "task-done" : "task-open"}">${done ? "☑" : "☐"}</span> `;
  });
}
