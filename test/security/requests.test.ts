import { PassThrough } from "node:stream";
import { describe, expect, test } from "vitest";
import { renderApproval, renderBeforeApproval } from "#bot/render/render-approval.ts";
import type { Approval } from "#domain/approval.ts";
import { previewFiles } from "#sandbox/preview-files.ts";
import { createCLIApprovalCallback } from "#terminal/ask-approval.ts";
import { markupOf } from "#text/html.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { requestBlocks } from "#ui/request-blocks.ts";
import { renderApprovalCard } from "#web/render-approval.ts";
import { sampleApproval } from "../support/run-view.ts";

const hidden: Record<string, string> = {
  "a CSI sequence": "\u001b[2K",
  "an 8-bit CSI sequence": "\u009b2K",
  "an OSC that ends with BEL": "\u001b]0;x\u0007",
  "an OSC that ends with ST": "\u001b]8;;x\u001b\\",
  "an OSC that does not end": "\u001b]0;x",
  "a DCS": "\u001bPx\u001b\\",
  "an 8-bit APC": "\u009fx\u009c",
  "a two-character escape": "\u001bc",
  ESC: "\u001b",
  NUL: "\u0000",
  backspace: "\b",
  DEL: "\u007f",
  "a carriage return": "\r",
  "a vertical tab": "\v",
  "a form feed": "\f",
  "a next line": "\u0085",
  "a line separator": "\u2028",
  "a paragraph separator": "\u2029",
  "a soft hyphen": "\u00ad",
  "a grapheme joiner": "\u034f",
  "an Arabic letter mark": "\u061c",
  "a Hangul filler": "\u115f",
  "another Hangul filler": "\u3164",
  "a half-width filler": "\uffa0",
  "a Khmer vowel": "\u17b4",
  "a vowel separator": "\u180e",
  "a zero-width space": "\u200b",
  "a joiner": "\u200d",
  "a right-to-left mark": "\u200f",
  "a right-to-left override": "\u202e",
  "an isolate": "\u2066",
  "a word joiner": "\u2060",
  "an invisible plus": "\u2064",
  "a deprecated format character": "\u206a",
  "a byte order mark": "\ufeff",
  "an interlinear annotation": "\ufff9",
  "a musical format character": "\u{1d173}",
  "a tag": "\u{e0041}",
  "a language tag": "\u{e0001}",
  "a variation selector": "\ufe00",
  "a variation selector of an emoji": "☺\ufe0f",
  "a variation selector of the supplement": "\u{e0100}",
  "half a surrogate pair": "\ud800",
  "the other half": "\udc80",
  "a private character": "\ue000",
  "a noncharacter": "\ufdd0",
  "the last code point": "\u{10ffff}",
  "a no-break space": "a\u00a0b",
  "an ideographic space": "a\u3000b",
  "a blank of Braille": "\u2800",
  "marks on marks": `a${"\u0301".repeat(20)}`,
};

type Field = "path" | "text" | "content" | "argument" | "key" | "nested key" | "reason" | "tool" | "worker";
const fields: Field[] = ["path", "text", "content", "argument", "key", "nested key", "reason", "tool", "worker"];

/** A request with a text in one of its fields. */
async function requestWith(text: string, field: Field): Promise<Approval> {
  const at = (name: Field) => (name === field ? `x${text}y` : "xy");
  const after = { content: Buffer.from(`${at("content")}\n`), executable: false };
  const files = await previewFiles([{ path: `dir/${at("path")}`, before: undefined, after }]);
  return sampleApproval({
    preview: { sections: [{ kind: "text", title: "Title", text: at("text") }, ...files] },
    args: { [at("key")]: at("argument"), deep: [{ [at("nested key")]: 1 }] },
    reason: at("reason"),
    tool: at("tool"),
    workerPath: at("worker"),
  });
}

const sanitize = createSanitizer([]);
const viewer = { kind: "signed-in", login: "ada", formKey: "key", canCommand: true } as const;
const page = { path: "/runs/1", threadUrl: "https://x", repositoryUrl: "https://x", now: 0, viewer };

const frontEnds: Record<string, (approval: Approval) => string | Promise<string>> = {
  thread: (approval) =>
    [...renderBeforeApproval(approval), renderApproval(approval)].map((text) => sanitize(text)).join(),
  page: (approval) =>
    markupOf(renderApprovalCard(approval, page as never)).replace(/<textarea[\s\S]*?<\/textarea>/g, ""),
  terminal: async ({ tool, args, reason, preview, workerPath }) => {
    const [input, output] = [new PassThrough(), new PassThrough()];
    const ask = createCLIApprovalCallback({ input, output });
    const answered = ask({
      toolName: tool,
      toolArgs: args as Record<string, unknown>,
      description: reason,
      delegationPath: ["root", workerPath],
      blocks: requestBlocks({ args, preview }),
    });
    let text = "";
    for await (const chunk of output) {
      text += chunk;
      if (text.includes("Approve? ")) break;
    }
    input.end("n\n");
    await answered;
    return text;
  },
};

// Characters that a reader does not see, or sees in another place.
const unseen =
  /(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800]|\p{M}{4}/u;

describe.each(Object.keys(frontEnds))("in a request on the %s, nothing of a text is hidden or stripped", (name) => {
  const render = frontEnds[name] ?? expect.fail();

  test.each(fields)("in the field %s", async (field) => {
    const plain = await render(await requestWith("", field));
    const failures: string[] = [];
    for (const [what, text] of Object.entries(hidden)) {
      const shown = await render(await requestWith(text, field));
      if (unseen.test(shown)) failures.push(`${what} is there as it is`);
      if (shown === plain) failures.push(`${what} is stripped`);
      // Escapes show every character of it: the request is longer by at least their number.
      if (shown.length < plain.length + [...text].length) failures.push(`${what} is shortened`);
    }
    expect(failures).toEqual([]);
  });
});
