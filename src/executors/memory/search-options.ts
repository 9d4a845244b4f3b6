import picomatch from "picomatch";

export interface SearchOptions {
  patterns: string[];
  paths: string[];
  syntax: "basic" | "extended" | "fixed";
  recursive: boolean;
  ignoreCase: boolean;
  invert: boolean;
  wholeWord: boolean;
  wholeLine: boolean;
  show: "lines" | "files" | "filesWithout" | "count" | "parts" | "listing";
  quiet: boolean;
  lineNumbers: boolean;
  fileNames: boolean | undefined;
  before: number;
  after: number;
  max: number;
  hidden: boolean;
  /** Whether files without a hit are counted too: grep does, rg does not. */
  zeros: boolean;
  includes(path: string): boolean;
}

const rgTypes: Record<string, string[]> = {
  ts: ["*.ts", "*.tsx", "*.mts", "*.cts"],
  js: ["*.js", "*.jsx", "*.mjs", "*.cjs"],
  py: ["*.py", "*.pyi"],
  go: ["*.go"],
  rust: ["*.rs"],
  java: ["*.java"],
  c: ["*.c", "*.h"],
  cpp: ["*.cpp", "*.cc", "*.cxx", "*.hpp", "*.hh", "*.h"],
  css: ["*.css", "*.scss"],
  html: ["*.html", "*.htm"],
  json: ["*.json"],
  yaml: ["*.yaml", "*.yml"],
  md: ["*.md", "*.markdown"],
  sh: ["*.sh", "*.bash"],
  ruby: ["*.rb"],
  php: ["*.php"],
  toml: ["*.toml"],
};

const longNames: Record<string, string> = {
  recursive: "r",
  "dereference-recursive": "R",
  "line-number": "n",
  "no-line-number": "N",
  "ignore-case": "i",
  "files-with-matches": "l",
  "files-without-match": "L",
  count: "c",
  "invert-match": "v",
  "word-regexp": "w",
  "line-regexp": "x",
  "fixed-strings": "F",
  "extended-regexp": "E",
  "basic-regexp": "G",
  "only-matching": "o",
  "no-filename": "h",
  "with-filename": "H",
  quiet: "q",
  silent: "q",
  "no-messages": "s",
  "after-context": "A",
  "before-context": "B",
  context: "C",
  "max-count": "m",
  regexp: "e",
  glob: "g",
  type: "t",
  hidden: "hidden",
  "no-ignore": "no-ignore",
  include: "include",
  exclude: "exclude",
  "exclude-dir": "exclude-dir",
  files: "files",
  "smart-case": "smart-case",
  color: "color",
  colour: "color",
  "no-heading": "",
  heading: "",
  sort: "color",
};

const withValue: Record<"grep" | "rg", string> = { grep: "eABCm", rg: "eABCmgt" };
const longWithValue = new Set(["A", "B", "C", "m", "e", "g", "t", "include", "exclude", "exclude-dir", "color"]);

/** Reads the arguments of `grep` or `rg`; undefined when one of them is not known here. */
export function searchOptions(program: "grep" | "rg", args: readonly string[]): SearchOptions | undefined {
  const flags: [name: string, value: string][] = [];
  const words: string[] = [];
  let onlyWords = false;

  for (let at = 0; at < args.length; at += 1) {
    const arg = args[at] ?? "";
    if (onlyWords || arg === "-" || !arg.startsWith("-")) {
      words.push(arg);
    } else if (arg === "--") {
      onlyWords = true;
    } else if (arg.startsWith("--")) {
      const [long = "", ...rest] = arg.slice(2).split("=");
      const name = longNames[long];
      if (name === undefined) return undefined;
      const takesNext = longWithValue.has(name) && rest.length === 0 && !(name === "color" && program === "grep");
      if (takesNext) at += 1;
      flags.push([name, rest.length > 0 ? rest.join("=") : takesNext ? (args[at] ?? "") : ""]);
    } else {
      for (let letter = 1; letter < arg.length; letter += 1) {
        const name = arg[letter] ?? "";
        if (!withValue[program].includes(name)) {
          flags.push([name, ""]);
          continue;
        }
        const attached = arg.slice(letter + 1);
        if (attached === "") at += 1;
        flags.push([name, attached || (args[at] ?? "")]);
        break;
      }
    }
  }
  return fromFlags(program, flags, words);
}

function fromFlags(program: "grep" | "rg", flags: [string, string][], words: string[]): SearchOptions | undefined {
  const rg = program === "rg";
  const options: SearchOptions = {
    patterns: [],
    paths: [],
    syntax: rg ? "extended" : "basic",
    recursive: rg,
    ignoreCase: false,
    invert: false,
    wholeWord: false,
    wholeLine: false,
    show: "lines",
    quiet: false,
    lineNumbers: false,
    fileNames: undefined,
    before: 0,
    after: 0,
    max: Number.POSITIVE_INFINITY,
    hidden: !rg,
    zeros: !rg,
    includes: () => true,
  };
  const filters: ((path: string) => boolean)[] = [];
  const wanted: ((path: string) => boolean)[] = [];
  const types: string[] = [];
  let smartCase = false;

  for (const [name, value] of flags) {
    switch (name) {
      case "r":
      case "R":
        if (rg) return undefined;
        options.recursive = true;
        break;
      case "i":
        options.ignoreCase = true;
        break;
      case "S":
      case "smart-case":
        smartCase = true;
        break;
      case "n":
        options.lineNumbers = true;
        break;
      case "N":
        options.lineNumbers = false;
        break;
      case "l":
        options.show = "files";
        break;
      case "L":
        if (!rg) options.show = "filesWithout";
        break;
      case "c":
        options.show = "count";
        break;
      case "o":
        options.show = "parts";
        break;
      case "files":
        options.show = "listing";
        break;
      case "v":
        options.invert = true;
        break;
      case "w":
        options.wholeWord = true;
        break;
      case "x":
        options.wholeLine = true;
        break;
      case "F":
        options.syntax = "fixed";
        break;
      case "E":
        options.syntax = "extended";
        break;
      case "G":
        options.syntax = "basic";
        break;
      case "h":
      case "I":
        if (name === "h") options.fileNames = false;
        break;
      case "H":
        options.fileNames = true;
        break;
      case "q":
        options.quiet = true;
        break;
      case "A":
        options.after = count(value);
        break;
      case "B":
        options.before = count(value);
        break;
      case "C":
        options.after = count(value);
        options.before = count(value);
        break;
      case "m":
        options.max = count(value);
        break;
      case "e":
        options.patterns.push(value);
        break;
      case "include":
        wanted.push(glob(value));
        break;
      case "exclude":
        filters.push((path) => !glob(value)(path));
        break;
      case "exclude-dir":
        filters.push(
          (path) =>
            !path
              .split("/")
              .slice(0, -1)
              .some((folder) => folder === value.replace(/\/$/, "")),
        );
        break;
      case "g":
        if (value.startsWith("!")) filters.push((path) => !glob(value.slice(1))(path));
        else wanted.push(glob(value));
        break;
      case "t": {
        const known = rgTypes[value];
        if (!known) return undefined;
        types.push(...known);
        break;
      }
      case "hidden":
      case ".":
        options.hidden = true;
        break;
      case "u":
      case "no-ignore":
      case "s":
      case "color":
      case "a":
      case "":
        break;
      default:
        return undefined;
    }
  }

  if (types.length > 0) filters.push((path) => types.some((type) => glob(type)(path)));
  if (wanted.length > 0) filters.push((path) => wanted.some((matches) => matches(path)));
  options.includes = (path) => filters.every((keep) => keep(path));
  if (options.show !== "listing" && options.patterns.length === 0) {
    const pattern = words.shift();
    if (pattern === undefined) return undefined;
    options.patterns.push(pattern);
  }
  options.paths = words;
  if (smartCase && !options.patterns.some((pattern) => /\p{Lu}/u.test(pattern))) options.ignoreCase = true;
  return options;
}

function count(value: string): number {
  const number = Number.parseInt(value, 10);
  return Number.isNaN(number) || number < 0 ? 0 : number;
}

function glob(pattern: string): (path: string) => boolean {
  const matches = picomatch(pattern.replace(/^\//, ""), { dot: true });
  if (pattern.includes("/")) return (path) => matches(path);
  return (path) => matches(path.slice(path.lastIndexOf("/") + 1));
}
