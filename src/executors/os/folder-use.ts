import { lstat, readdir } from "node:fs/promises";

export interface FolderUse {
  bytes: number;
  files: number;
}

/** What folders hold on disk; stops counting once a limit is passed. Never follows a link. */
export async function folderUse(folders: readonly string[], limit: FolderUse): Promise<FolderUse> {
  const use: FolderUse = { bytes: 0, files: 0 };
  const open = [...folders];
  while (open.length > 0 && use.bytes * 512 <= limit.bytes && use.files <= limit.files) {
    const folder = open.pop() ?? "";
    const names = await readdir(folder, { withFileTypes: true }).catch(() => []);
    use.files += names.length;
    for (const entry of names) {
      const path = `${folder}/${entry.name}`;
      if (entry.isDirectory()) open.push(path);
      else if (entry.isFile()) use.bytes += (await lstat(path).catch(() => undefined))?.blocks ?? 0;
    }
  }
  // The kernel counts in blocks of 512 bytes, whatever the file system does.
  return { bytes: use.bytes * 512, files: use.files };
}
