import { optionsOf, type ProgramSyntax, spellingsOf } from "./options.ts";
import { isPlainAwk, isPlainJq, isPlainSed, isPlainYq } from "./script-languages.ts";
import type { CommandWord } from "./simple-command.ts";

/*
 * The programs and options that are known to be harmless. Everything else asks. Before you add an option, make sure that
 * no implementation of the program (GNU, BSD, busybox, just-bash) writes a file, runs a program, reads another file or
 * connects to another machine because of it.
 */

type Details = Partial<Omit<ProgramSyntax, "options" | "changing" | "spellings" | "reads">>;

const entry =
  (reads: boolean) =>
  (
    options: string,
    operands: ProgramSyntax["operands"],
    details: Details & { changing?: string } = {},
  ): ProgramSyntax => ({
    ...details,
    reads,
    options: optionsOf(options),
    changing: optionsOf(details.changing ?? ""),
    spellings: spellingsOf(`${options} ${details.changing ?? ""}`),
    operands,
  });
/** A program that only reads files and prints. */
const reads = entry(true);
/** A program that changes files of the repository, or runs its code. It needs a rule that allows it. */
const changes = entry(false);

const harmless = { harmless: true };
const searched = { first: "pattern", harmless: true } as const;
const search = `a b c E F G h H i I l L n o P q r R s v w x z A:B:C:m: e! # --include: --exclude: --exclude-dir: --color?
  --ignore-case --line-number --count --recursive --invert-match --word-regexp --files-with-matches --only-matching
  --files-without-match --extended-regexp --fixed-strings --perl-regexp --regexp! --context: --after-context:
  --before-context: --max-count: --no-filename --with-filename --quiet --no-messages`;
const sed = reads(
  "n E r s u z e! --quiet --silent --regexp-extended --expression! --null-data --posix --sandbox",
  "paths",
  {
    first: isPlainSed,
    changing: "i=--in-place",
  },
);
const awk = reads("F: v:", "paths", { first: isPlainAwk });
const checksum = reads("b t z", "paths");
const fd = reads(
  "H I s i g F a p L e: E: t: d: S: --hidden --no-ignore --glob --extension: --type: --exclude: --max-depth: --follow",
  "paths",
  { first: "pattern" },
);

/** The name of an archive or of a file in it. A colon would name another machine. */
const archive = /^[\w./+-]+$/;

// Clusters such as `-eq` are operators. Without `-v` and `-R`, which evaluate subscripts.
const test = reads("a b c d e f g h L l n o p q r s t w x z", "paths");

const tarListing = reads("", archive, { minOperands: 1 });

const readingPrograms: Record<string, ProgramSyntax> = {
  ls: reads(
    `a A b B c C d f F g G h H i k l L n N o p q Q r R s S t u U v w:x X 1 I:
    --all --almost-all --color? --human-readable --recursive --reverse --sort: --time: --full-time --size --directory
    --group-directories-first --ignore:`,
    "paths",
    harmless,
  ),
  cat: reads("A b e E n s t T u v --number --show-all --number-nonblank --squeeze-blank", "paths", harmless),
  tac: reads("b r s:", "paths", harmless),
  nl: reads("b:d:f:h:i:l:n:p s:v:w:", "paths", harmless),
  head: reads("c:n:q v z # --lines: --bytes: --quiet --verbose", "paths", harmless),
  tail: reads("c:n:q v z # --lines: --bytes: --quiet --verbose", "paths", harmless),
  wc: reads("c m l w L --lines --words --bytes --chars --max-line-length", "paths", harmless),
  cut: reads("b:c:d:f:s z --delimiter: --fields: --characters: --complement --output-delimiter:", "paths", harmless),
  paste: reads("d:s z --delimiters: --serial", "paths", harmless),
  rev: reads("", "paths", harmless),
  fold: reads("b s w: --width:", "paths", harmless),
  fmt: reads("s u w:", "paths", harmless),
  expand: reads("i t:", "paths", harmless),
  unexpand: reads("a t:", "paths", harmless),
  column: reads("t s:o:c:x N:R:", "paths", harmless),
  comm: reads("1 2 3 i z --check-order --nocheck-order --total", "paths", harmless),
  join: reads("1:2:j:t:a:v:o:e:i", "paths", harmless),
  tr: reads("c C d s t --delete --squeeze-repeats --complement", "text", { maxOperands: 2 }),
  grep: reads(search, "paths", searched),
  egrep: reads(search, "paths", searched),
  fgrep: reads(search, "paths", searched),
  rg: reads(
    `a c F H h i I l L n N o P p q s S u U v w x A:B:C:d:e! g:j:m:M:r:t:T: 0 --files --files-with-matches
    --files-without-match --count --count-matches --hidden --no-ignore --ignore-case --smart-case --fixed-strings
    --word-regexp --line-number --no-line-number --with-filename --no-filename --no-heading --heading --glob: --iglob:
    --type: --type-not: --type-list --max-count: --max-depth: --context: --after-context: --before-context: --multiline
    --multiline-dotall --only-matching --replace: --json --stats --sort: --color: --column --vimgrep --trim
    --invert-match --regexp! --follow --no-messages --no-config`,
    "paths",
    { first: "pattern", withoutPattern: ["--files", "--type-list"] },
  ),
  fd,
  fdfind: fd,
  sed,
  gsed: sed,
  awk,
  gawk: awk,
  mawk: awk,
  nawk: awk,
  jq: reads(
    `a c C e j M n r s S --raw-output --compact-output --null-input --slurp --sort-keys --exit-status --tab --arg::
    --argjson::`,
    "paths",
    {
      first: isPlainJq,
    },
  ),
  yq: reads("C e j M P r o:p:I: --prettyPrint --unwrapScalar?", "paths", { first: isPlainYq, changing: "i=--inplace" }),
  sort: reads(
    `b c C d f g h i M n r R s u V z k:t: --unique --reverse --numeric-sort --human-numeric-sort --version-sort
    --ignore-case --stable --key: --field-separator: --check`,
    "paths",
  ),
  uniq: reads("c d i u z f:s:w: --count --repeated --unique --ignore-case", "paths", { maxOperands: 1 }),
  shuf: reads("n:r z --head-count:", "paths", { maxOperands: 1 }),
  diff: reads(
    `a b B d E i N p q r s t u w W:x:y Z U:C:c # --unified? --brief --recursive --ignore-all-space --ignore-case --color?
    --ignore-space-change --ignore-blank-lines --side-by-side --suppress-common-lines --exclude: --strip-trailing-cr
    --width: --text --minimal`,
    "paths",
  ),
  cmp: reads("b l s n:", "paths"),
  find: reads("", "paths", { separateOptions: true }),
  tree: reads(
    "a d D f F h i l p s t C A S L:I:P: --dirsfirst --noreport --gitignore --prune --du --filelimit:",
    "paths",
    {
      separateOptions: true,
    },
  ),
  stat: reads("c:L t --format: --printf: --terse", "paths", harmless),
  file: reads("b i L h --brief --mime --mime-type --mime-encoding", "paths"),
  du: reads(
    "a b c h k m s x S L d: --max-depth: --summarize --human-readable --apparent-size --exclude:",
    "paths",
    harmless,
  ),
  df: reads("a h i k l P T", "paths"),
  md5sum: checksum,
  sha1sum: checksum,
  sha256sum: checksum,
  sha512sum: checksum,
  cksum: reads("", "paths"),
  base64: reads("d i w: --decode --wrap:", "paths"),
  od: reads("A:t:N:j:b c d o v x", "paths"),
  hexdump: reads("b c C d o v x n:s:e:", "paths"),
  ...Object.fromEntries(
    "tf tvf tzf tzvf tjf tjvf tJf tJvf".split(" ").flatMap((text) => [
      [`tar ${text}`, tarListing],
      [`tar -${text}`, tarListing],
    ]),
  ),
  xxd: reads("b e i p u c:g:l:s:", "paths", { maxOperands: 1, separateOptions: true }),
  // `@file` would name a file with options.
  strings: reads("a n:t:", /^[^@]/),
  zcat: reads("", "paths"),
  basename: reads("a s:z", "text", harmless),
  dirname: reads("z", "text", harmless),
  realpath: reads("e m q s z P L --relative-to/ --relative-base/", "paths"),
  readlink: reads("e f m n q z", "paths"),
  pwd: reads("L P", "none"),
  // Without a folder, it goes to the home folder.
  cd: reads("", /^[^-]/, { minOperands: 1, maxOperands: 1 }),
  echo: reads("n e E", "text", harmless),
  // `%n` sets a variable, whose name may contain a command. Its only option writes to a variable.
  printf: reads("", "text", { first: /^(?:[^%]|%[-+ 0#]*\d*(?:\.\d+)?[bcdefgiosuxXq%])*$/ }),
  true: reads("", "none"),
  false: reads("", "none"),
  ":": reads("", "text", harmless),
  seq: reads("w s:f:", /^-?[\d.]+$/),
  expr: reads("", "text", harmless),
  sleep: reads("", /^[\d.]+[smhd]?$/),
  date: reads("u R I? --utc --iso-8601? d: --date:", /^\+/),
  uname: reads("a s n r v m p i o", "none"),
  whoami: reads("", "none"),
  id: reads("u n g G", "none"),
  nproc: reads("", "none"),
  uptime: reads("", "none"),
  free: reads("b k m g h", "none"),
  env: reads("", "none"),
  printenv: reads("0", /^\w+$/),
  hostname: reads("", "none"),
  which: reads("a", /^[\w.-]+$/),
  type: reads("a t p P", /^[\w.-]+$/),
  "command -v": reads("", /^[\w.-]+$/),
  test,
  "[": test,
  set: reads("e u x o", /^pipefail$/),
  exit: reads("", "text", harmless),
  break: reads("", "none"),
  continue: reads("", "none"),
  xargs: reads("0 r t n:L:P:d:I: --null --no-run-if-empty --max-args: --max-procs: --delimiter:", "none", {
    startsAfter: 0,
  }),
  timeout: reads("k:s:v --foreground --preserve-status --kill-after: --signal:", /^[\d.]+[smhd]?$/, { startsAfter: 1 }),
};

const name = /^(?![-.])[\w./-]+$/;

const revisions = `# p u n:S:G:L:U:M? C? s z b w R i E F P a --oneline --stat --shortstat --numstat --name-only --name-status --graph --all
  --since: --until: --after: --before: --author: --grep: --max-count: --format: --pretty? --date: --follow --reverse
  --no-merges --merges --first-parent --decorate? --no-decorate --abbrev-commit --patch --no-patch --cached --staged
  --word-diff? --color? --no-color --summary --branches? --tags --remotes? --diff-filter: --unified: --ignore-all-space
  --ignore-space-change --find-renames? --no-renames --no-ext-diff --no-textconv --check --exit-code --quiet --topo-order
  --date-order --count --left-right --merge-base --minimal --histogram --patience --raw --root --skip: --full-history`;

const readingGit: Record<string, ProgramSyntax> = {
  "git status": reads("s b u? v z --short --branch --porcelain? --untracked-files? --ignored? --show-stash", "paths"),
  "git log": reads(revisions, "paths"),
  "git show": reads(revisions, "paths"),
  "git diff": reads(revisions, "paths"),
  "git rev-list": reads(revisions, "paths"),
  "git shortlog": reads("s n e c --summary --numbered --email --all --since: --until: --no-merges", "paths"),
  "git blame": reads("L:w M C s l e t p c --porcelain --show-email --date: --root", "paths"),
  "git grep": reads(
    `a i I l L n c w v h H E F G P o q p W e! A:B:C:m: # --and --or --not --cached --untracked --files-with-matches
    --name-only --line-number --count --ignore-case --word-regexp --break --heading --show-function --max-depth: --column`,
    "paths",
    { first: "pattern" },
  ),
  "git ls-files": reads(
    "c d o m s t u z --cached --deleted --others --modified --exclude-standard --stage --unmerged --error-unmatch --full-name",
    "paths",
  ),
  "git ls-tree": reads("r d t l z --name-only --full-name --full-tree --abbrev?", "paths"),
  "git rev-parse": reads(
    "q --abbrev-ref? --short? --verify --show-toplevel --show-prefix --git-dir --is-inside-work-tree --quiet --all",
    "paths",
  ),
  "git describe": reads("--tags --all --always --long --dirty? --abbrev: --match: --exact-match --contains", "paths"),
  "git merge-base": reads("a --all --is-ancestor --fork-point --octopus", "paths"),
  "git cat-file": reads("p t s e", /^[\w./:@^~-]+$/),
  "git show-ref": reads("s d --heads --tags --verify --hash?", "paths"),
  "git for-each-ref": reads("--count: --sort: --format: --contains: --merged?", "paths"),
  "git name-rev": reads("--name-only --tags --always", "paths"),
  "git branch": reads(
    "a r v --show-current --list --all --remotes --verbose --contains: --no-contains: --merged: --no-merged:",
    "none",
    { changing: "d=--delete D m=--move M f=--force u:=--set-upstream-to:" },
  ),
  "git remote": reads("v --verbose", "none"),
  "git remote get-url": reads("--all --push", name),
  "git tag": reads("n? --sort:", "none", { changing: "a=--annotate d=--delete m:=--message:", changingOperands: name }),
  "git tag -l": reads("n:", "text"),
  "git tag --list": reads("n:", "text"),
  "git stash list": reads("", "none"),
  "git reflog": reads("# n: --all --date: --oneline", "none"),
  "git check-ignore": reads("v q n z", "paths"),
  "git count-objects": reads("v H", "none"),
  "git diff-tree": reads(`${revisions} r t m --no-commit-id`, "paths"),
  "git --version": reads("", "none"),
};

/** A word that is neither an option, nor a file with options, an address or a setting. */
const plainWord = /^(?![-@])(?!.*::)[\w./%@+,:#^~-]+$/;
/** Other names may be folders with repositories, whose hooks are programs. */
const remote = { first: /^(origin|upstream)$/ };
const runsCode = (options: string): ProgramSyntax => changes(options, plainWord);
// `vitest init` installs packages.
const runner = changes("u=--update --watch --coverage --run --silent", new RegExp(`(?!^init$)${plainWord.source}`));

const changingPrograms: Record<string, ProgramSyntax> = {
  mkdir: changes("p=--parents v m:", "paths"),
  touch: changes("a c m", "paths"),
  cp: changes("a=--archive f=--force i n=--no-clobber p r=R=--recursive u v", "paths"),
  mv: changes("f=--force i n=--no-clobber u v", "paths"),
  rm: changes("d=--dir f=--force i r=R=--recursive v", "paths"),
  rmdir: changes("p v", "paths"),
  ln: changes("f=--force n r s=--symbolic v", "paths"),
  chmod: changes("R=--recursive c f v", "paths", { first: /^(?:0?[0-7]{3}|[ugoa]*[+=][rwxX]+|[ugoa]+-[rwxX]+)$/ }),
  tee: changes("a=--append", "paths"),
  gzip: changes("c d f k l t v #", "paths"),
  gunzip: changes("c f k l t v", "paths"),
  // Without the letters that start other programs or keep absolute paths.
  tar: changes("c=--create x=--extract=--get t=--list v=--verbose z j J f", archive, {
    first: /^[cxt]v?[zjJ]?v?f$/,
    withoutPattern: ["c", "x", "t"],
  }),
  unzip: changes("l n o q", /^(?!-)[\w./+-]+$/),
  kill: changes("#", /^\d+$/),
  ps: changes("a A e f u x", /^[aefux]+$/),
  curl: changes(
    `f=--fail g i=--include I=--head k=--insecure L=--location s=--silent S=--show-error v=--verbose m:=--max-time:
    --retry:`,
    /^https?:\/\/[^@\s]+$/,
  ),
  make: runsCode("s=--silent n k B=--always-make j 0 1 2 3 4 5 6 7 8 9"),
  // `tsc --noEmit false` writes files.
  tsc: changes("b=--build p/=--project/ --noEmit --pretty", new RegExp(`(?!^(?:true|false|null)$)${plainWord.source}`)),
  eslint: runsCode("--fix --quiet --ext: --max-warnings: --cache"),
  prettier: runsCode("c=--check l=--list-different w=--write"),
  vitest: runner,
  jest: runner,
  pytest: runsCode("q v x s l k:m: --lf --ff --tb: --maxfail:"),
  "npm test": runsCode("s=--silent"),
  "npm run": runsCode("s=--silent --if-present"),
  "npm start": changes("", "none"),
  "npm ci": changes("--ignore-scripts --no-audit --no-fund", "none"),
  "npm install": changes("--ignore-scripts --no-audit --no-fund", "none"),
  "npm ls": changes("a=--all --depth:", plainWord),
  "npm outdated": changes("", "none"),
  "pnpm test": runsCode(""),
  "pnpm run": runsCode(""),
  "pnpm install": changes("--frozen-lockfile --offline", "none"),
  "yarn test": runsCode(""),
  "yarn run": runsCode(""),
  "yarn install": changes("--frozen-lockfile --immutable", "none"),
  "cargo build": runsCode(
    "p:q r=--release v --all --workspace --all-features --features: --all-targets --locked --offline",
  ),
  "cargo check": runsCode(
    "p:q v --release --all --workspace --all-features --features: --all-targets --locked --offline",
  ),
  "cargo test": runsCode(
    "p:q r=--release v --all --workspace --all-features --features: --lib --doc --locked --offline --no-run",
  ),
  "cargo clippy": runsCode("p:q --workspace --all-features --all-targets"),
  "cargo fmt": runsCode("--all --check"),
  "cargo tree": runsCode("p:d"),
  "go build": runsCode("v"),
  "go test": runsCode("v"),
  "go vet": runsCode("v"),
  "go fmt": runsCode(""),
  "go list": runsCode("m"),
  "go version": changes("", "none"),
  "pip list": changes("--outdated --format:", "none"),
  "pip show": changes("f", name),
  "pip freeze": changes("", "none"),
  "pip check": changes("", "none"),
  "docker ps": changes("a q", "none"),
  "docker images": changes("a q", "none"),
  "git add": changes("A=--all f=--force n u=--update v", "paths"),
  "git commit": changes("a=--all m:=--message: q s=--signoff --amend --no-edit --allow-empty", "none"),
  "git checkout": changes("b:B:f=--force q", "paths"),
  "git switch": changes("c:=--create: C:=--force-create: q", name),
  "git restore": changes("S=--staged W=--worktree s:=--source:", "paths"),
  "git stash": changes("", /^(push|pop|list|show|drop|apply)$/),
  "git push": changes("f=--force u=--set-upstream n=--dry-run q --tags --force-with-lease", name, remote),
  "git fetch": changes("p=--prune q --tags --all", name, remote),
  "git pull": changes("q --rebase --ff-only", name, remote),
  "git rebase": changes("q --abort --continue --skip", name),
  "git merge": changes("q m: --no-ff --ff-only --abort --no-edit", name),
  "git reset": changes("q --hard --soft --mixed", "paths"),
  "git rm": changes("f=--force r q --cached", "paths"),
  "git mv": changes("f=--force k v", "paths"),
  "git cherry-pick": changes("n=--no-commit x --abort --continue", name),
  "git revert": changes("n=--no-commit --no-edit --abort", name),
};

/** git starts gpg for the signature of a commit. */
const withoutSignature = /^(?![\s\S]*(?:%G|%\(.*signature))/;

const programs = new Map(
  Object.entries({ ...readingPrograms, ...readingGit, ...changingPrograms }).map(([name, program]) => [
    name,
    name.startsWith("git ") ? { ...program, values: withoutSignature } : program,
  ]),
);

export interface KnownProgram {
  name: string;
  program: ProgramSyntax;
  args: CommandWord[];
  /** Folders that an option before the subcommand names. */
  folders: CommandWord[];
}

/** Finds the program of a command, or its subcommand such as `git log`. */
export function findKnownProgram(words: readonly CommandWord[]): KnownProgram | undefined {
  const folders: CommandWord[] = [];
  const found = [...words];
  const isText = (at: number, ...texts: string[]) => found[at]?.kind === "literal" && texts.includes(found[at].text);
  while (isText(0, "git") && isText(1, "--no-pager", "-P", "-C")) {
    const [option, folder] = found.splice(1, isText(1, "-C") ? 2 : 1);
    if (option?.text !== "-C") continue;
    if (folder?.kind !== "literal") return undefined;
    folders.push(folder);
  }
  for (const length of [3, 2, 1]) {
    const start = found.slice(0, length);
    const name = start.map(({ text }) => text).join(" ");
    const program = start.every(({ kind }) => kind === "literal") ? programs.get(name) : undefined;
    if (program) return { name, program, args: found.slice(length), folders };
  }
  return undefined;
}
