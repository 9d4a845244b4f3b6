import { splitCode } from "./markdown-code.ts";
import { createRedactor } from "./redact.ts";
import { truncateMarkdown, truncateText } from "./truncate.ts";
import { describeHidden, normalizeText, replaceHidden } from "./visible-text.ts";

/** Characters. GitHub accepts 65,536, and a marker or a closing line may still be added. */
const maxLength = 60_000;

/** An invisible character that breaks mentions, references, and words that keep CI from running. */
const breaker = "\u200B";

// A URL may contain @ and #. Characters that may end a link or begin a mention are excluded.
const url = String.raw`(?<![^\s*_~(])https?:\/\/(?:[a-z0-9-]+\.)+[a-z0-9-]+(?=[/?#:])[A-Za-z0-9\-._/:?#=&%+@]*`;
const mention = "(?<![A-Za-z0-9_])@(?=[A-Za-z0-9])";
const reference = String.raw`(?<!&(?=#33;|#39;))#(?=\d)|\bGH-(?=\d)`;
const mentionOrReference = new RegExp(`(${url})|${mention}|${reference}`, "gi");

// `[skip ci]` and the like, in commit messages and in the pull requests that these are made from.
const skipsCi = /\[(?=\s*(?:(?:skip|no)[\s_-]+[a-z]+|[a-z]+[\s_-]+skip)\s*\])|\*\*\*(?=NO_CI)/gi;

const closingUrl =
  /\b(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(:?\s{1,10})(https?:\/\/[^\s<>()`]{1,500}\/(?:issues|pull)\/\d+)/gi;
// A comment such as `/merge`, which other Apps and workflows may take for a command. A path has another slash.
const slashCommand = /^([ \t]*)\/(?=[A-Za-z][\w-]*(?:\s|$))/gm;
const threadUrl = /\bhttps?:\/\/github\.com(?=\/[\w.-]+\/[\w.-]+\/(?:issues|pull|discussions|commit)\/)/gi;

// Other entities could spell a mention, a reference or a hidden character.
const oddEntity = /&(?!(?:amp|lt|gt|quot|nbsp|hellip|mdash|ndash|rarr|larr|#33|#39);)(?=#?\w{1,31};)/g;

// The tags that are kept. All others, and comments, are shown as text.
const keptTag =
  /^<(?:\/?(?:details|summary|br|hr|kbd|sub|sup|b|i|em|strong|p|ul|ol|li|blockquote|h[1-6])|details open|br ?\/)>/i;
const keptUrl = /^<https?:\/\/[^\s<>"'`]{1,2000}>/i;

/**
 * Returns the function that every outgoing text passes. It redacts secrets and tokens, makes hidden characters visible,
 * and shortens texts that are too long for GitHub. In prose it disables mentions, references to other issues, closing
 * keywords, words that keep CI from running, commands of other Apps, images and raw HTML. Code is left alone. Sanitizing a text twice gives the same result.
 *
 * `plain` is for titles and commit messages, in which GitHub renders neither code nor HTML.
 */
export function createSanitizer(secrets: readonly string[]): (text: string, kind?: "markdown" | "plain") => string {
  const redact = createRedactor(secrets);
  return (text, kind = "markdown") => {
    const visible = showHidden(redact(normalizeText(text)));
    if (kind === "plain") {
      const named = visible.replaceAll(breaker, "").replace(closingUrl, "$1$2`$3`");
      return truncateText(breakReferences(named), maxLength);
    }

    const escaped = splitCode(visible).map((part) => (part.code ? part.text : escapeHtml(part.text)));
    // Split again: with the tags escaped, more of the text is unambiguously code.
    const inert = splitCode(escaped.join("")).map(({ text, code }, index, parts) =>
      code ? defuseCode(text) : defuseProse(text, { startsLine: parts[index - 1]?.text.endsWith("\n") ?? true }),
    );
    return truncateMarkdown(inert.join(""), maxLength);
  };
}

/** Keeps the breakers of an earlier pass. */
function showHidden(text: string): string {
  return text
    .split(/(?<=[@#[]|GH-|\*\*\*)\u200B(?=[\sA-Za-z0-9])/)
    .map((part) => replaceHidden(part, describeHidden))
    .join(breaker);
}

function defuseCode(code: string): string {
  return code.replaceAll(breaker, describeHidden(breaker)).replace(/<!--(?=\s*golem-forge:)/gi, "<! --");
}

function defuseProse(prose: string, { startsLine }: { startsLine: boolean }): string {
  return breakReferences(
    prose
      .replace(slashCommand, (found, indent: string, at: number) => (at > 0 || startsLine ? `${indent}\\/` : found))
      .replaceAll(breaker, "")
      .replace(oddEntity, "&amp;")
      .replace(/!(?=\[)/g, "&#33;")
      .replace(threadUrl, "https://redirect.github.com"),
  );
}

function breakReferences(text: string): string {
  return text
    .replace(mentionOrReference, (found, whole?: string) => whole ?? found + breaker)
    .replace(skipsCi, (found) => found + breaker);
}

/** Makes the changes that affect where code begins: escapes raw HTML, and formats URLs after closing keywords as code. */
function escapeHtml(prose: string): string {
  return prose
    .replace(/<(?=[A-Za-z/!?])/g, (_, at: number) => (isKept(prose, at) ? "<" : "&lt;"))
    .replace(closingUrl, "$1$2`$3`");
}

function isKept(prose: string, at: number): boolean {
  const rest = prose.slice(at, at + 2100);
  return keptTag.test(rest) || keptUrl.test(rest);
}
