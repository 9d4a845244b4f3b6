import { type Base, readEntry } from "./base.ts";
import { EventLoopYielder } from "./event-loop.ts";
import { Layer, type LayerState } from "./layer.ts";
import type { Sandbox, StepChanges, StoredChange, StoredStep } from "./sandbox.ts";
import type { Space } from "./zones.ts";

/** Everything a run has written to the repository and to its zones, with the state before each step. */
export interface Overlay extends Pick<Sandbox, "pendingChanges" | "markStored" | "rollback"> {
  layers: Readonly<Record<Space, Layer>>;
  write(space: Space, path: string, content: Uint8Array, executable?: boolean): void;
  remove(space: Space, path: string): void;
  /** Applies stored changes to a new overlay, yielding to the event loop. */
  restore(stored: readonly StepChanges[]): Promise<void>;
  /** Returns all stored steps, oldest first. The contents of the base must be loaded. */
  history(): StoredStep[];
  /** Reverts a path to the base. */
  reset(path: string): void;
}

interface Touched {
  space: Space;
  path: string;
  before: LayerState;
}

/** Creates an overlay without changes. */
export function createOverlay(base: Base, isHidden: (path: string) => boolean): Overlay {
  const layers = { repository: new Layer(base), run: new Layer(undefined) };
  const steps: { step: string; touched: Touched[]; after: StoredChange[] }[] = [];
  let open = new Map<string, Touched>();
  let openStep = "";

  function touch(space: Space, path: string): void {
    const key = `${space}:${path}`;
    if (!open.has(key)) open.set(key, { space, path, before: layers[space].state(path) });
  }

  function write(space: Space, path: string, content: Uint8Array, executable?: boolean): void {
    touch(space, path);
    layers[space].write(path, content, space === "run" ? false : executable);
  }

  function remove(space: Space, path: string): void {
    touch(space, path);
    layers[space].remove(path);
  }

  const changedNow = () =>
    [...open.values()]
      .filter(({ space, path, before }) => !isSame(layers[space].state(path), before))
      .sort((a, b) => (a.path < b.path ? -1 : 1));

  function markStored(): void {
    const touched = changedNow();
    const after = touched.map((change) => nowAt(layers, change));
    if (touched.length > 0) steps.push({ step: openStep, touched, after });
    open = new Map();
    openStep = "";
  }

  async function restore(stored: readonly StepChanges[]): Promise<void> {
    const loop = new EventLoopYielder();
    for (const { step, changes } of stored) {
      // Deletions first, so that a folder can replace a file.
      const gone = changes.filter(({ content }) => content === undefined);
      for (const { path, mode } of gone) remove(spaceOf(mode), path);
      for (const { path, content, mode } of changes) {
        if (content) write(spaceOf(mode), path, content, mode === "100755");
        if (loop.isDue) await loop.turn();
      }
      openStep = step;
      markStored();
    }
  }

  return {
    layers,
    write,
    remove,
    restore,
    reset: (path) => {
      touch("repository", path);
      layers.repository.setState(path, { kind: "base" });
    },
    pendingChanges: (step) => {
      openStep = step;
      const changes = changedNow().map((change) => nowAt(layers, change));
      return changes.length > 0 ? { step, changes } : undefined;
    },
    markStored,
    rollback: () => {
      const touched = [...open.values()];
      for (const { space, path } of touched) layers[space].remove(path);
      for (const { space, path, before } of touched) layers[space].setState(path, before);
      open = new Map();
      openStep = "";
    },
    history: () =>
      steps
        .map(({ step, touched, after }) => ({
          step,
          before: touched.filter(({ path }) => !isHidden(path)).map((change) => storedAt(base, change)),
          after: after.filter(({ path }) => !isHidden(path)),
        }))
        .filter(({ after }) => after.length > 0),
  };
}

function spaceOf(mode: StoredChange["mode"]): Space {
  return mode === "scratch" ? "run" : "repository";
}

function nowAt(layers: Overlay["layers"], { space, path }: Touched): StoredChange {
  const layer = layers[space];
  return stored(space, path, layer.read(path), layer.node(path)?.executable ?? false);
}

/** Returns the content before a step. Computed on demand, since the base already contains most of it. */
function storedAt(base: Base, { space, path, before }: Touched): StoredChange {
  if (before.kind === "file") return stored(space, path, before.content, before.executable);

  const entry = before.kind === "base" && space === "repository" ? base.entries.get(path) : undefined;
  return stored(space, path, entry && readEntry(base, entry), entry?.executable ?? false);
}

function stored(space: Space, path: string, content: Buffer | undefined, executable: boolean): StoredChange {
  if (space === "run") return { path, content, mode: "scratch" };
  return { path, content, mode: executable ? "100755" : "100644" };
}

function isSame(a: LayerState, b: LayerState): boolean {
  if (a.kind !== "file" || b.kind !== "file") return a.kind === b.kind;
  return a.executable === b.executable && (a.content === b.content || a.content.equals(b.content));
}
