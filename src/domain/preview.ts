import { z } from "zod";

/** A file mode as git stores it: a file, an executable file, a symbolic link, a submodule. */
const FileMode = z.enum(["100644", "100755", "120000", "160000"]);
export type FileMode = z.infer<typeof FileMode>;

/** The change of one file, computed from its bytes. */
export const FileChange = z.object({
  path: z.string(),
  kind: z.enum(["added", "modified", "deleted"]),
  oldMode: FileMode.optional(),
  newMode: FileMode.optional(),
  /** Object ids of git, 40 hex digits. */
  oldBlob: z.string().optional(),
  newBlob: z.string().optional(),
  /** Bytes of the new content; 0 for a deleted file. */
  size: z.number(),
});
export type FileChange = z.infer<typeof FileChange>;

/** The reason why the content of a changed file is not shown. */
export const NotShown = z.enum(["binary", "too large", "contains a secret"]);
export type NotShown = z.infer<typeof NotShown>;

/**
 * One block of an approval request. Blocks are laid out separately, so that no text can imitate another block.
 *
 * `text`: text of the model or a tool, such as a commit message. `file`: a changed file with its diff, in which every
 * character is visible. `hidden-file`: a changed file whose content is not shown.
 */
export const PreviewSection = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("text"), title: z.string(), text: z.string() }),
  z.object({ kind: z.literal("file"), change: FileChange, diff: z.string() }),
  z.object({ kind: z.literal("hidden-file"), change: FileChange, reason: NotShown }),
]);
export type PreviewSection = z.infer<typeof PreviewSection>;

/** A description of what a call would do, for the approver. The approval is bound to all of it except the layout of diffs. */
export const Preview = z.object({
  sections: z.array(PreviewSection),
  /** Other state that the effect depends on, by name: `{ "commit of feature-x": "1f00…" }`. */
  bindings: z.record(z.string(), z.string()).optional(),
  /** True if the files are the changes of the run, which do not depend on the arguments. */
  filesFixed: z.boolean().optional(),
  /** True if an argument holds what looks like a secret, which is not shown. */
  hidesArguments: z.boolean().optional(),
});
export type Preview = z.infer<typeof Preview>;

export function textPreview(text: string, title = "What it would do"): Preview {
  return { sections: [{ kind: "text", title, text }] };
}

export function textOf(section: PreviewSection): string {
  switch (section.kind) {
    case "text":
      return section.text;
    case "file":
      return section.diff;
    case "hidden-file":
      return section.change.path;
  }
}

export function changesIn(preview: Preview | undefined): FileChange[] {
  return (preview?.sections ?? []).flatMap((section) => (section.kind === "text" ? [] : [section.change]));
}

/** True if the preview shows the content of all files, and all arguments are shown. */
export function isShownWhole(preview: Preview | undefined): boolean {
  if (preview?.hidesArguments) return false;
  return (preview?.sections ?? []).every(({ kind }) => kind !== "hidden-file");
}

/** The characters that a person would have to read. A short line counts as half a line of text. */
export function previewLength({ sections }: Preview): number {
  return sections.reduce((sum, section) => sum + lengthOf(section), 0);
}

function textLength(text: string): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines += 1;
  return Math.max(text.length, 40 * lines);
}

function lengthOf(section: PreviewSection): number {
  switch (section.kind) {
    case "text":
      return textLength(section.text);
    case "file":
      return section.change.path.length + textLength(section.diff);
    case "hidden-file":
      return section.change.path.length;
  }
}

/**
 * The part of a preview that an approval with edited arguments is bound to: the state that the call starts from, and the
 * files that do not depend on the arguments.
 */
export function boundState(preview: Preview | undefined): object | undefined {
  if (!preview) return undefined;
  const { bindings = {}, filesFixed } = preview;
  const files = changesIn(preview).map((change) => {
    const { path, oldMode, oldBlob } = change;
    return filesFixed ? change : { path, oldMode, oldBlob };
  });
  return { files, bindings };
}

/** The part of a preview that an approval is bound to: the contents of files, the texts and the bindings. */
export function boundPart(preview: Preview | undefined): object | undefined {
  if (!preview) return undefined;
  const sections = preview.sections.map((section) => (section.kind === "text" ? section : section.change));
  return { sections, bindings: preview.bindings ?? {} };
}
