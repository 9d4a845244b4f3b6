import type { CharClass } from "./char-class.ts";
import { type Assertion, RegexError, type RegexNode } from "./parse-regex.ts";

/** The result of a scan: a match in the line that contains `at` or ends there, no match, or a pause. */
export interface Scan {
  kind: "match" | "end" | "paused";
  /** The position up to which the scan has read. */
  at: number;
  /** The state in which a paused scan continues. */
  state: number;
}

/** The properties of the character before or after a position that assertions check. */
interface Neighbor {
  isBoundary: boolean;
  isWord: boolean;
  isAsciiWord: boolean;
}

/** A set of characters that the pattern does not distinguish. */
interface CharacterKind extends Neighbor {
  /** By class of the pattern: true if it contains these characters. */
  members: readonly boolean[];
}

/** A DFA state: the NFA states before the assertions at the position are evaluated, and the preceding character. */
interface DfaState {
  nfaStates: readonly number[];
  before: Neighbor;
}

const newline = 0x0a;
const maxStates = 2_000;
// A scan pauses after about 10 ms of work: bytes read, or steps of the NFA that were not cached.
const maxScanBytes = 1024 ** 2;
const maxSteps = 50_000;
const lineEdge: Neighbor = { isBoundary: true, isWord: false, isAsciiWord: false };
const wordMember = /^[\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]$/u;
const asciiWordMember = /^\w$/;
// Entries of the transition table that are not a next state.
const unknown = 0;
const matched = -1;

/**
 * Finds the lines of UTF-8 text that match a pattern, in time linear in the text for any pattern. It is a DFA over sets
 * of NFA states, built lazily and discarded when it has too many states. RegExp would backtrack, and re2js has neither
 * ripgrep's Unicode classes and word boundaries nor a search over bytes.
 */
export class LineAutomaton {
  readonly #nfa: Nfa;
  readonly #kinds: CharacterKind[] = [];
  readonly #kindByKey = new Map<string, number>();
  /** The kind of each ASCII character, and of the other characters seen so far. */
  readonly #asciiKinds = new Uint16Array(128);
  readonly #otherKinds = new Map<number, number>();
  readonly #invalidKind: number;
  /** The next state by state and kind. A state is the offset of its row. */
  #table = new Int32Array(0);
  #rowLength = 0;
  #states: DfaState[] = [];
  #stateByKey = new Map<string, number>();
  #startState = 0;
  #stepsLeft = 0;

  constructor(node: RegexNode) {
    this.#nfa = compileNfa(node);
    for (let codePoint = 0; codePoint < 128; codePoint++) this.#asciiKinds[codePoint] = this.#addKind(codePoint);
    this.#invalidKind = this.#addKind(undefined);
    this.#reset();
  }

  /** Scans lines up to the first match. Starts at `from`, which is the start of a line or the end of the `paused` scan. */
  scan(bytes: Uint8Array, from: number, to: number, paused?: Scan): Scan {
    this.#stepsLeft = maxSteps;
    const pauseAt = Math.min(to, from + maxScanBytes);
    const position = { at: from, state: paused ? paused.state : this.#startState };
    while (position.at < pauseAt && this.#stepsLeft >= 0) {
      followCached(bytes, pauseAt, position, { table: this.#table, asciiKinds: this.#asciiKinds });
      if (position.at >= pauseAt) break;

      const { kind, length } = this.#decode(bytes, position.at, to);
      if (kind >= this.#rowLength) position.state = this.#growRows(position.state);
      const next = this.#table[position.state + kind] || this.#step(position.state, kind);
      if (next === matched) return { kind: "match", ...position };
      position.state = next;
      position.at += length;
    }
    const { at, state } = position;
    if (at < to) return { kind: "paused", at, state };

    const isInLine = to > from && bytes[to - 1] !== newline;
    const isMatch = isInLine && this.#closure(this.#stateAt(state), lineEdge).matches;
    return { kind: isMatch ? "match" : "end", at: to, state };
  }

  #stateAt(state: number): DfaState {
    return this.#states[state / this.#rowLength - 1] as DfaState;
  }

  /** Computes the next state, or `matched` if the pattern matches before the character. */
  #step(state: number, kind: number): number {
    const from = this.#stateAt(state);
    const character = this.#kinds[kind] as CharacterKind;
    const { consuming, matches } = this.#closure(from, character);
    let next = matched;
    if (!matches && character.isBoundary) next = this.#startState;
    else if (!matches) {
      // The search is not anchored, so a match may start at every position.
      const nfaStates = new Set([this.#nfa.start]);
      for (const transition of consuming) {
        if (character.members[transition.classIndex]) nfaStates.add(transition.next);
      }
      next = this.#addState(
        [...nfaStates].sort((a, b) => a - b),
        character,
      );
    }
    // Adding a state may have reset the table.
    if (this.#stateAt(state) === from) this.#table[state + kind] = next;
    return next;
  }

  /** Follows transitions that consume nothing, as far as the characters around the position allow. */
  #closure({ nfaStates, before }: DfaState, after: Neighbor) {
    const { edges, consuming, match } = this.#nfa;
    const reached: { classIndex: number; next: number }[] = [];
    const seen = new Set(nfaStates);
    for (const state of seen) {
      this.#stepsLeft--;
      const transition = consuming[state];
      if (transition) reached.push(transition);
      for (const { next, assertion } of edges[state] ?? []) {
        if (!assertion || holds(assertion, before, after)) seen.add(next);
      }
    }
    return { consuming: reached, matches: seen.has(match) };
  }

  #addState(nfaStates: readonly number[], before: Neighbor): number {
    const key = `${Number(before.isBoundary)}${Number(before.isWord)}${Number(before.isAsciiWord)} ${nfaStates.join(" ")}`;
    const known = this.#stateByKey.get(key);
    if (known !== undefined) return known;

    if (this.#states.length >= maxStates) this.#reset();
    this.#states.push({ nfaStates, before });
    // Offset 0 means unknown, so the first row is not used.
    const state = this.#states.length * this.#rowLength;
    if (state + this.#rowLength > this.#table.length) {
      const grown = new Int32Array(2 * (state + this.#rowLength));
      grown.set(this.#table);
      this.#table = grown;
    }
    this.#stateByKey.set(key, state);
    return state;
  }

  /** Drops all states. They are added again when needed. */
  #reset(): void {
    this.#rowLength = 2 ** Math.ceil(Math.log2(this.#kinds.length + 1)) * 2;
    this.#states = [];
    this.#stateByKey = new Map();
    this.#table = new Int32Array(64 * this.#rowLength);
    this.#startState = this.#addState([this.#nfa.start], lineEdge);
  }

  /** Makes room for new kinds of characters, and returns the state under its new number. */
  #growRows(state: number): number {
    const { nfaStates, before } = this.#stateAt(state);
    this.#reset();
    return this.#addState(nfaStates, before);
  }

  #decode(bytes: Uint8Array, at: number, to: number): { kind: number; length: number } {
    const byte = bytes[at] as number;
    if (byte < 128) return { kind: this.#asciiKinds[byte] as number, length: 1 };
    const { codePoint, length } = decodeUtf8(bytes, at, to);
    if (codePoint === undefined) return { kind: this.#invalidKind, length };
    let kind = this.#otherKinds.get(codePoint);
    if (kind === undefined) {
      kind = this.#addKind(codePoint);
      this.#otherKinds.set(codePoint, kind);
    }
    return { kind, length };
  }

  /** Returns the kind of a character. Undefined stands for a byte that is not UTF-8, which no class contains. */
  #addKind(codePoint: number | undefined): number {
    const members = this.#nfa.classes.map((set) => {
      if (codePoint === undefined) return false;
      return codePoint < 128 ? (set.ascii[codePoint] ?? false) : set.has(codePoint);
    });
    const character = codePoint === undefined ? "" : String.fromCodePoint(codePoint);
    const isBoundary = codePoint === newline;
    const isWord = wordMember.test(character);
    const isAsciiWord = asciiWordMember.test(character);
    const key = [isBoundary, isWord, isAsciiWord, ...members].map(Number).join("");
    const known = this.#kindByKey.get(key);
    if (known !== undefined) return known;

    this.#kinds.push({ members, isBoundary, isWord, isAsciiWord });
    this.#kindByKey.set(key, this.#kinds.length - 1);
    return this.#kinds.length - 1;
  }
}

/** Reads ASCII while the next state is in the table. This is the hot loop. */
function followCached(
  bytes: Uint8Array,
  to: number,
  position: { at: number; state: number },
  { table, asciiKinds }: { table: Int32Array; asciiKinds: Uint16Array },
): void {
  let { at, state } = position;
  for (; at < to; at++) {
    const byte = bytes[at] as number;
    if (byte > 127) break;
    const next = table[state + (asciiKinds[byte] as number)] as number;
    if (next <= unknown) break;
    state = next;
  }
  position.at = at;
  position.state = state;
}

function holds({ at, unicode }: NfaAssertion, before: Neighbor, after: Neighbor): boolean {
  const [previous, next] = unicode ? [before.isWord, after.isWord] : [before.isAsciiWord, after.isAsciiWord];
  switch (at) {
    case "line-start":
      return before.isBoundary;
    case "line-end":
      return after.isBoundary;
    case "word":
      return previous !== next;
    case "not-word":
      return previous === next;
    case "word-start":
      return !previous && next;
    case "word-end":
      return previous && !next;
    case "word-start-half":
      return !previous;
    case "word-end-half":
      return !next;
  }
}

/** Decodes one character. `codePoint` is undefined for a byte that is not valid UTF-8. */
function decodeUtf8(bytes: Uint8Array, at: number, to: number): { codePoint: number | undefined; length: number } {
  const lead = bytes[at] ?? 0;
  const length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  let codePoint = lead & (0x7f >> length);
  if (lead < 0xc2 || lead > 0xf4 || at + length > to) return { codePoint: undefined, length: 1 };
  for (let offset = 1; offset < length; offset++) {
    const byte = bytes[at + offset] ?? 0;
    if ((byte & 0xc0) !== 0x80) return { codePoint: undefined, length: 1 };
    codePoint = (codePoint << 6) | (byte & 0x3f);
  }
  const isOverlong = codePoint < (length === 4 ? 0x10000 : length === 3 ? 0x800 : 0x80);
  const isSurrogate = codePoint >= 0xd800 && codePoint <= 0xdfff;
  return isOverlong || isSurrogate || codePoint > 0x10ffff
    ? { codePoint: undefined, length: 1 }
    : { codePoint, length };
}

type NfaAssertion = Pick<Assertion, "at" | "unicode">;

interface Nfa {
  classes: CharClass[];
  start: number;
  match: number;
  /** By state: the class of the character it consumes, and the next state. */
  consuming: ({ classIndex: number; next: number } | undefined)[];
  /** By state: the transitions that consume nothing. Some require an assertion to hold. */
  edges: { next: number; assertion?: NfaAssertion }[][];
}

const maxNfaStates = 10_000;

/** Compiles a pattern to a nondeterministic automaton. Throws a RegexError if it would be too large. */
function compileNfa(node: RegexNode): Nfa {
  const nfa: Nfa = { classes: [], start: 0, match: 0, consuming: [undefined], edges: [[]] };
  const classIndexes = new Map<string, number>();
  nfa.start = add(node, 0);
  return nfa;

  /** Adds the states of a node, which continue at `next`, and returns the first of them. */
  function add(node: RegexNode, next: number): number {
    switch (node.kind) {
      case "empty":
        return next;
      case "class":
        return state({ classIndex: classIndex(node.class), next }, []);
      case "assert":
        return state(undefined, [{ next, assertion: { at: node.at, unicode: node.unicode } }]);
      case "concat":
        return node.items.reduceRight((following, item) => add(item, following), next);
      case "alternate":
        return state(
          undefined,
          node.items.map((item) => ({ next: add(item, next) })),
        );
      case "repeat":
        return addRepeat(node, next);
    }
  }

  function addRepeat({ item, min, max }: Extract<RegexNode, { kind: "repeat" }>, next: number): number {
    let first = next;
    if (max === Number.POSITIVE_INFINITY) {
      first = state(undefined, [{ next }]);
      nfa.edges[first]?.push({ next: add(item, first) });
    } else {
      for (let count = min; count < max; count++) first = state(undefined, [{ next }, { next: add(item, first) }]);
    }
    for (let count = 0; count < min; count++) first = add(item, first);
    return first;
  }

  function state(consuming: Nfa["consuming"][number], edges: Nfa["edges"][number]): number {
    if (nfa.edges.length >= maxNfaStates) throw new RegexError("its repetitions make it too large");
    nfa.consuming.push(consuming);
    nfa.edges.push(edges);
    return nfa.edges.length - 1;
  }

  function classIndex(set: CharClass): number {
    const known = classIndexes.get(set.key);
    if (known !== undefined) return known;
    nfa.classes.push(set);
    classIndexes.set(set.key, nfa.classes.length - 1);
    return nfa.classes.length - 1;
  }
}
