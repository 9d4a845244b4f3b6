import { z } from "zod";

/** A file mode as git stores it: a file, an executable file, a symbolic link, a submodule. */
const FileMode = z.enum(["100644", "100755", "120000", "160000"]);

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

/** Why the content of a changed file is not shown. */
export const NotShown = z.enum(["binary", "too large", "took too long to compare", "contains a secret"]);
export type NotShown = z.infer<typeof NotShown>;

/**
 * One block of a request for approval. Blocks are laid out apart, so that no text can pass for another block.
 *
 * `text`: what the model or a tool wrote, such as a commit message. `file`: a changed file with the hunks of its diff,
 * every character visible, or the reason why its content is not shown.
 */
export const PreviewSection = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("text"), title: z.string(), text: z.string() }),
  z.object({ kind: z.literal("file"), change: FileChange, diff: z.string() }),
  z.object({ kind: z.literal("hidden-file"), change: FileChange, reason: NotShown }),
]);
export type PreviewSection = z.infer<typeof PreviewSection>;

/** What a call would do, for the person who approves it. The approval is bound to all of it but the layout of diffs. */
export const Preview = z.object({
  sections: z.array(PreviewSection),
  /** Other state that the effect depends on, by what it is: `{ "commit of feature-x": "1f00…" }`. */
  bindings: z.record(z.string(), z.string()).optional(),
  /** True when the files are what the run has made, and not what the arguments say: other arguments change none of them. */
  filesFixed: z.boolean().optional(),
});
export type Preview = z.infer<typeof Preview>;

/** A preview of plain text, as a tool may give it. */
export function textPreview(text: string, title = "What it would do"): Preview {
  return { sections: [{ kind: "text", title, text }] };
}

/** Every file change of a preview, in its order. */
export function changesIn(preview: Preview | undefined): FileChange[] {
  return (preview?.sections ?? []).flatMap((section) => (section.kind === "text" ? [] : [section.change]));
}

/** True when the preview shows everything it stands for. */
export function isShownWhole(preview: Preview | undefined): boolean {
  return (preview?.sections ?? []).every(({ kind }) => kind !== "hidden-file");
}

/** The preview with every file hidden whose content must not be posted. Its path, modes, blob ids and size stay. */
export function hideFiles(preview: Preview, mustHide: (diff: string) => boolean): Preview {
  const sections = preview.sections.map((section): PreviewSection => {
    if (section.kind !== "file" || !mustHide(section.diff)) return section;
    return { kind: "hidden-file", change: section.change, reason: "contains a secret" };
  });
  return { ...preview, sections };
}

/**
 * What an approval with changed arguments is bound to: the state that the call starts from, and every file that the
 * arguments have no influence on.
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

/** What an approval is bound to of a preview: the bytes of every file, the texts, and the bindings; not how diffs are drawn. */
export function boundPart(preview: Preview | undefined): object | undefined {
  if (!preview) return undefined;
  const sections = preview.sections.map((section) => (section.kind === "text" ? section : section.change));
  return { sections, bindings: preview.bindings ?? {} };
}
