import { workerMachine } from "#machines/worker-machine.ts";

/** One state of the worker machine that a run can be in, or pass through. */
export interface ChartState {
  name: string;
  /** The state around it. */
  inside: string | undefined;
  /** `passing` ones are left at once, `busy` ones cost minutes, `waiting` ones wait for somebody. */
  kind: "passing" | "busy" | "waiting" | "final";
}

export interface ChartStep {
  from: string;
  to: string;
  /** The event that takes it; undefined for a step that is taken at once. */
  on: string | undefined;
}

export interface StateChart {
  /** In the order of their definition. */
  states: ChartState[];
  steps: ChartStep[];
  /** What is heard in every state, and where it leads. */
  anywhere: { on: string; to: string }[];
}

type Node = (typeof workerMachine)["root"];

/** The worker machine as it is defined, for front ends that draw it. */
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

/** The state one is in after entering this one. */
function entryOf(node: Node): Node {
  const first = node.initial?.target[0] as Node | undefined;
  return first ? entryOf(first) : node;
}

/** What a state takes by itself, or because it is inside another one. */
function stepsOf(leaf: Node): ChartStep[] {
  const around = leaf.parent && leaf.parent !== workerMachine.root ? transitionsOf(leaf.parent as Node) : [];
  const own = kindOf(leaf) === "passing" ? transitionsOf(leaf) : [...transitionsOf(leaf), ...around];
  return own.map((step) => ({ from: leaf.key, ...step }));
}

function transitionsOf(node: Node): { on: string | undefined; to: string }[] & { on: string; to: string }[] {
  const heard = [...node.transitions.values()]
    .flat()
    .map(({ eventType, target }) => ({ on: eventType as string, target }));
  const taken = (node.always ?? []).map(({ target }) => ({ on: undefined, target }));
  return [...heard, ...taken].flatMap(({ on, target }) =>
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
