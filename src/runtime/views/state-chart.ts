import { workerMachine } from "#machines/worker-machine.ts";

/** A state of the worker machine that a run can be in, or pass through. */
export interface ChartState {
  name: string;
  /** The state that contains it. */
  inside: string | undefined;
  /** A run leaves `passing` states immediately, works in `busy` ones, and waits for an event in `waiting` ones. */
  kind: "passing" | "busy" | "waiting" | "final";
}

export interface ChartStep {
  from: string;
  to: string;
  /** The event that triggers it; undefined for an immediate transition. */
  on: string | undefined;
}

export interface StateChart {
  /** In the order of their definition. */
  states: ChartState[];
  steps: ChartStep[];
  /** Transitions that are possible in every state. */
  anywhere: { on: string; to: string }[];
}

type Node = (typeof workerMachine)["root"];

/** Returns the states and transitions of the worker machine, for front ends that draw it. */
export function stateChart(): StateChart {
  const { root } = workerMachine;
  const leaves = leavesOf(root);
  return {
    states: leaves.map((node) => ({
      name: node.key,
      inside: node.parent && node.parent !== root ? node.parent.key : undefined,
      kind: kindOf(node),
    })),
    steps: distinct(leaves.flatMap(stepsOf)),
    anywhere: distinct(transitionsOf(root)),
  };
}

function leavesOf(node: Node): Node[] {
  const children = Object.values(node.states) as Node[];
  return children.length === 0 ? [node] : children.flatMap(leavesOf);
}

/** Returns the atomic state that is active after this state is entered. */
function entryOf(node: Node): Node {
  const first = node.initial?.target[0] as Node | undefined;
  return first ? entryOf(first) : node;
}

/** Returns the transitions of a state, including those it inherits from the state around it. */
function stepsOf(leaf: Node): ChartStep[] {
  const around = leaf.parent && leaf.parent !== workerMachine.root ? transitionsOf(leaf.parent as Node) : [];
  const own = kindOf(leaf) === "passing" ? transitionsOf(leaf) : [...transitionsOf(leaf), ...around];
  return own.map((step) => ({ from: leaf.key, ...step }));
}

function transitionsOf(node: Node): { on: string | undefined; to: string }[] & { on: string; to: string }[] {
  const triggered = [...node.transitions.values()]
    .flat()
    .map(({ eventType, target }) => ({ on: eventType as string, target }));
  const immediate = (node.always ?? []).map(({ target }) => ({ on: undefined, target }));
  return [...triggered, ...immediate].flatMap(({ on, target }) =>
    (target ?? []).map((to) => ({ on, to: entryOf(to as Node).key })),
  ) as ReturnType<typeof transitionsOf>;
}

function kindOf(node: Node): ChartState["kind"] {
  if (node.type === "final") return "final";
  if ((node.always ?? []).length > 0) return "passing";
  return node.tags.includes("busy") ? "busy" : "waiting";
}

function distinct<T extends object>(items: readonly T[]): T[] {
  return [...new Map(items.map((item) => [JSON.stringify(item), item])).values()];
}
