const version = String.raw`[=<>!~]{1,3}\s*[\w.*+!-]+`;
const plainName = new RegExp(
  String.raw`^[a-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*\(?(${version}(\s*,\s*${version})*)?\)?$`,
  "i",
);
const plainMarker = /^[\w\s.,'"<>=!~()+-]*$/;
const plainHash = /^sha(256|384|512):[0-9a-f]+$/i;

/**
 * The first line of a requirements.txt that asks for more than a package of the registry: an option, an address, a path
 * or an archive. Those come from elsewhere, or run code while they are installed.
 */
export function findUnsupportedRequirement(text: string): string | undefined {
  const lines = text.replace(/\\\r?\n/g, " ").split(/\r?\n/);
  return lines.map((line) => line.replace(/(^|\s)#.*$/, "").trim()).find((line) => line !== "" && !isPlain(line));
}

/** A file that lies in the tree is taken for the package, should its name end like this. */
export function isArchive(name: string): boolean {
  return /\.(zip|whl|egg|tar|tgz|tbz2?|txz|tlz|gz|bz2|xz|lzma)$/i.test(name);
}

function isPlain(line: string): boolean {
  const [requirement = "", ...hashes] = line.split(/\s+--hash=/);
  const end = requirement.indexOf(";");
  const name = (end === -1 ? requirement : requirement.slice(0, end)).trim();
  const marker = end === -1 ? "" : requirement.slice(end + 1);
  return (
    plainName.test(name) &&
    !isArchive(name) &&
    plainMarker.test(marker) &&
    !/(^|\s)-/.test(marker) &&
    hashes.every((hash) => plainHash.test(hash.trim()))
  );
}
