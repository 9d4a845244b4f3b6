import { describeHidden, normalizeText, replaceHidden } from "./hidden-characters.ts";
import { splitCode } from "./markdown-code.ts";
import { createRedactor } from "./redact.ts";
import { truncateMarkdown, truncateText } from "./truncate.ts";

/** Characters; GitHub takes 65,536, and a marker or a closing line may still be added. */
const longest = 60_000;

/** Breaks a mention or a reference without being seen. */
const breaker = "\u200B";

// An address swallows the @ and # inside it. The characters that may end a link or begin a mention are left out.
const address = String.raw`(?<![^\s*_~(])https?:\/\/(?:[a-z0-9-]+\.)+[a-z0-9-]+(?=[/?#:])[A-Za-z0-9\-._/:?#=&%+@]*`;
const mention = "(?<![A-Za-z0-9_])@(?=[A-Za-z0-9])";
const reference = String.raw`(?<!&(?=#33;|#39;))#(?=\d)|\bGH-(?=\d)`;
const mentionOrReference = new RegExp(`(${address})|${mention}|${reference}`, "gi");

const closingAddress =
  /\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(:?\s{1,10})(https?:\/\/[^\s<>()`]{1,500}\/(?:issues|pull)\/\d+)/gi;
const threadAddress = /\bhttps?:\/\/github\.com(?=\/[\w.-]+\/[\w.-]+\/(?:issues|pull|discussions|commit)\/)/gi;

// Any other entity could spell a mention, a reference or a hidden character.
const oddEntity = /&(?!(?:amp|lt|gt|quot|nbsp|hellip|mdash|ndash|rarr|larr|#33|#39);)(?=#?\w{1,31};)/g;

// The tags a text may keep; all others, comments included, are shown as they are written.
const keptTag =
  /^<(?:\/?(?:details|summary|br|hr|kbd|sub|sup|b|i|em|strong|p|ul|ol|li|blockquote|h[1-6])|details open|br ?\/)>/i;
const keptAddress = /^<https?:\/\/[^\s<>"'`]{1,2000}>/i;

/**
 * Gives the function that every text passes on its way out. Secrets and token shapes are taken out; hidden characters
 * become visible; in prose, mentions, references to other issues, closing keywords, images and raw HTML become inert;
 * what is longer than GitHub takes is cut in the middle. Code stays as it is written. Applying it twice changes nothing more.
 *
 * `plain` is for titles and commit messages, which GitHub shows as they are: nothing in them is code or HTML.
 */
export function createSanitizer(secrets: readonly string[]): (text: string, kind?: "markdown" | "plain") => string {
  const redact = createRedactor(secrets);
  return (text, kind = "markdown") => {
    const visible = showHidden(redact(normalizeText(text)));
    if (kind === "plain") {
      const named = visible.replaceAll(breaker, "").replace(closingAddress, "$1$2`$3`");
      return truncateText(breakReferences(named), longest);
    }

    const escaped = splitCode(visible).map((part) => (part.code ? part.text : disarm(part.text)));
    // Split again: without its tags, more of the text is surely code.
    const inert = splitCode(escaped.join("")).map((part) => (part.code ? inertCode(part.text) : inertProse(part.text)));
    return truncateMarkdown(inert.join(""), longest);
  };
}

/** Breakers that an earlier pass put in stay where they are. */
function showHidden(text: string): string {
  return text
    .split(/(?<=[@#]|GH-)\u200B(?=[A-Za-z0-9])/)
    .map((part) => replaceHidden(part, describeHidden))
    .join(breaker);
}

function inertCode(code: string): string {
  return code.replaceAll(breaker, describeHidden(breaker)).replace(/<!--(?=\s*golem-forge:)/gi, "<! --");
}

function inertProse(prose: string): string {
  return breakReferences(
    prose
      .replaceAll(breaker, "")
      .replace(oddEntity, "&amp;")
      .replace(/!(?=\[)/g, "&#33;")
      .replace(threadAddress, "https://redirect.github.com"),
  );
}

function breakReferences(text: string): string {
  return text.replace(mentionOrReference, (found, whole?: string) => whole ?? found + breaker);
}

/** What changes where code begins and ends: raw HTML is escaped, the address after a closing keyword becomes code. */
function disarm(prose: string): string {
  return prose
    .replace(/<(?=[A-Za-z/!?])/g, (_, at: number) => (mayStay(prose, at) ? "<" : "&lt;"))
    .replace(closingAddress, "$1$2`$3`");
}

function mayStay(prose: string, at: number): boolean {
  const rest = prose.slice(at, at + 2100);
  return keptTag.test(rest) || keptAddress.test(rest);
}
