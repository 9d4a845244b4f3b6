import { z } from "zod";

/** Add an entry to the notes about a subject */
export async function addNote({ subject, text }: { subject: string; text: string }, { sandbox }) {
  const path = `notes/${subject}.md`;
  const notes = (await sandbox.exists(path)) ? await sandbox.read(path) : `# ${subject}\n`;
  await sandbox.write(path, `${notes.trimEnd()}\n- ${text}\n`);
  return { path, entries: notes.split("\n- ").length };
}

export const addNoteSchema = z.object({
  subject: z.string().regex(/^[\w-]+$/).describe("The name of the file without .md"),
  text: z.string().min(1).describe("The entry, in one line"),
});
