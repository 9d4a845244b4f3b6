import { compileFileGlob } from "#text/path-pattern.ts";

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
  /** True to also count files without a match, as grep does and rg does not. */
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

/** Parses the arguments of `grep` or `rg`. Returns undefined if one of them is not supported. */
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

/** The options while the arguments are parsed. */
interface Draft {
  options: SearchOptions;
  isRg: boolean;
  /** A path must pass all of these filters … */
  filters: ((path: string) => boolean)[];
  /** … and one of these, if there are any. */
  wanted: ((path: string) => boolean)[];
  types: string[];
  smartCase: boolean;
}

/** Applies a flag. Returns false if the program does not have it. */
type FlagHandler = (draft: Draft, value: string) => unknown;

const set =
  (change: Partial<SearchOptions>): FlagHandler =>
  ({ options }) =>
    void Object.assign(options, change);
const ignored: FlagHandler = () => {};
const recurse: FlagHandler = ({ options, isRg }) => {
  options.recursive = true;
  return !isRg;
};
const useSmartCase: FlagHandler = (draft) => {
  draft.smartCase = true;
};

const flagHandlers: Record<string, FlagHandler> = {
  r: recurse,
  R: recurse,
  i: set({ ignoreCase: true }),
  S: useSmartCase,
  "smart-case": useSmartCase,
  n: set({ lineNumbers: true }),
  N: set({ lineNumbers: false }),
  l: set({ show: "files" }),
  L: ({ options, isRg }) => {
    if (!isRg) options.show = "filesWithout";
  },
  c: set({ show: "count" }),
  o: set({ show: "parts" }),
  files: set({ show: "listing" }),
  v: set({ invert: true }),
  w: set({ wholeWord: true }),
  x: set({ wholeLine: true }),
  F: set({ syntax: "fixed" }),
  E: set({ syntax: "extended" }),
  G: set({ syntax: "basic" }),
  h: set({ fileNames: false }),
  I: ignored,
  H: set({ fileNames: true }),
  q: set({ quiet: true }),
  A: (draft, value) => set({ after: count(value) })(draft, value),
  B: (draft, value) => set({ before: count(value) })(draft, value),
  C: (draft, value) => set({ before: count(value), after: count(value) })(draft, value),
  m: (draft, value) => set({ max: count(value) })(draft, value),
  e: ({ options }, value) => void options.patterns.push(value),
  include: ({ wanted }, value) => void wanted.push(compileFileGlob(value)),
  exclude: (draft, value) => exclude(draft, value),
  "exclude-dir": ({ filters }, value) => {
    const name = value.replace(/\/$/, "");
    filters.push((path) => !path.split("/").slice(0, -1).includes(name));
  },
  g: (draft, value) => {
    if (value.startsWith("!")) exclude(draft, value.slice(1));
    else draft.wanted.push(compileFileGlob(value));
  },
  t: ({ types }, value) => {
    if (Object.hasOwn(rgTypes, value)) types.push(...(rgTypes[value] ?? []));
    return Object.hasOwn(rgTypes, value);
  },
  hidden: set({ hidden: true }),
  ".": set({ hidden: true }),
  u: ignored,
  "no-ignore": ignored,
  s: ignored,
  color: ignored,
  a: ignored,
  "": ignored,
};

function exclude({ filters }: Draft, pattern: string): void {
  const matches = compileFileGlob(pattern);
  filters.push((path) => !matches(path));
}

function fromFlags(program: "grep" | "rg", flags: [string, string][], words: string[]): SearchOptions | undefined {
  const draft = draftFor(program);
  const { options, filters, wanted, types } = draft;
  for (const [name, value] of flags) {
    const apply = Object.hasOwn(flagHandlers, name) ? flagHandlers[name] : undefined;
    if (!apply || apply(draft, value) === false) return undefined;
  }

  if (types.length > 0) {
    const ofTypes = types.map(compileFileGlob);
    filters.push((path) => ofTypes.some((matches) => matches(path)));
  }
  if (wanted.length > 0) filters.push((path) => wanted.some((matches) => matches(path)));
  options.includes = (path) => filters.every((keep) => keep(path));
  if (options.show !== "listing" && options.patterns.length === 0) {
    const pattern = words.shift();
    if (pattern === undefined) return undefined;
    options.patterns.push(pattern);
  }
  options.paths = words;
  if (draft.smartCase && !options.patterns.some((pattern) => /\p{Lu}/u.test(pattern))) options.ignoreCase = true;
  return options;
}

function draftFor(program: "grep" | "rg"): Draft {
  const isRg = program === "rg";
  const options: SearchOptions = {
    patterns: [],
    paths: [],
    syntax: isRg ? "extended" : "basic",
    recursive: isRg,
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
    hidden: !isRg,
    zeros: !isRg,
    includes: () => true,
  };
  return { options, isRg, filters: [], wanted: [], types: [], smartCase: false };
}

function count(value: string): number {
  const number = Number.parseInt(value, 10);
  return Number.isNaN(number) || number < 0 ? 0 : number;
}
