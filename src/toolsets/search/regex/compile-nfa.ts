import type { CharClass } from "./char-class.ts";
import { type Assertion, RegexError, type RegexNode } from "./parse-regex.ts";

export type NfaAssertion = Pick<Assertion, "at" | "unicode">;

export interface Nfa {
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
export function compileNfa(node: RegexNode): Nfa {
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
