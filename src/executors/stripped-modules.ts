import { readFileSync } from "node:fs";
import { stripTypeScriptTypes } from "node:module";
import { sourceFolder } from "./own-files.ts";

/** The source of a module without its types, by the module's URL. */
export type StrippedModules = readonly (readonly [url: string, source: string])[];

const known = new Map<string, StrippedModules>();

/**
 * This program's own modules that an entry stands on, with their types taken out. Node takes them out itself, with a
 * compiler that costs each process 20 MB and as much time as everything else it does to start: so we do it once for all.
 * What is missing here Node still reads from its file.
 */
export function strippedModules(entry: URL): StrippedModules {
  let modules = known.get(entry.href);
  if (!modules) {
    modules = readModules(entry);
    known.set(entry.href, modules);
  }
  return modules;
}

function readModules(entry: URL): StrippedModules {
  const found = new Map<string, string>();
  const waiting = [entry];
  for (let url = waiting.pop(); url; url = waiting.pop()) {
    if (found.has(url.href) || !isOwnModule(url)) continue;
    const source = strippedSource(url);
    if (source === undefined) continue;
    found.set(url.href, source);
    waiting.push(...importsOf(source, url));
  }
  return [...found];
}

function isOwnModule({ href }: URL): boolean {
  return href.startsWith(sourceFolder.href) && href.endsWith(".ts");
}

function strippedSource(url: URL): string | undefined {
  const { emitWarning } = process;
  // Node calls the function experimental, on standard error; it is what Node itself runs this program by.
  process.emitWarning = () => {};
  try {
    return stripTypeScriptTypes(readFileSync(url, "utf8"));
  } catch {
    // Whoever imports it gets the reason from Node, in better words.
    return undefined;
  } finally {
    process.emitWarning = emitWarning;
  }
}

/** Types are out already, so what is left is imported when the program runs. */
function importsOf(source: string, from: URL): URL[] {
  const specifiers = source.matchAll(/\b(?:from|import)\s*\(?\s*"((?:\.{0,2}\/|#)[^"]+)"/g);
  return [...specifiers].map(([, specifier = ""]) =>
    specifier.startsWith("#") ? new URL(specifier.slice(1), sourceFolder) : new URL(specifier, from),
  );
}
