import { EventLoopYielder } from "#domain/async-work.ts";
import type { FileMode } from "#domain/preview.ts";
import type { Base } from "./git/base.ts";
import { type Content, Layer, type LayerState, originalOf } from "./layer.ts";
import type { StepChanges, StoredChange, StoredStep } from "./sandbox.ts";
import type { Space } from "./zones.ts";

export interface FileMove {
  from: { space: Space; path: string };
  to: { space: Space; path: string };
}

interface Touched {
  space: Space;
  path: string;
  before: LayerState;
}

/** Everything a run has written to the repository and to its zones, with the state before each step. */
export type Overlay = ReturnType<typeof createOverlay>;

/** Creates an overlay without changes. */
export function createOverlay(base: Base, isHidden: (path: string) => boolean) {
  const layers: Readonly<Record<Space, Layer>> = { repository: new Layer(base), run: new Layer(undefined) };
  const steps: { step: string; touched: Touched[]; after: StoredChange[] }[] = [];
  let open = new Map<string, Touched>();
  let openStep = "";

  function touch(space: Space, path: string): void {
    const key = `${space}:${path}`;
    if (!open.has(key)) open.set(key, { space, path, before: layers[space].state(path) });
  }

  /** Keeps the executable bit of an existing file if the mode is undefined. */
  function write(space: Space, path: string, content: Uint8Array, mode?: FileMode): void {
    touch(space, path);
    layers[space].write(path, content, { mode: space === "run" ? "100644" : mode });
  }

  function remove(space: Space, path: string): void {
    touch(space, path);
    layers[space].remove(path);
  }

  /** Moves files. Removes all old paths first, so that a move can change only the case, or turn a file into a folder. */
  function move(moves: readonly FileMove[]): void {
    const moved = moves.map(({ from, to }) => ({ to, file: layers[from.space].fileAt(from.path) }));
    for (const { from } of moves) remove(from.space, from.path);
    for (const { to, file } of moved) {
      if (!file) continue;
      touch(to.space, to.path);
      const { content, mode, isShared } = file;
      layers[to.space].write(to.path, content, { mode: to.space === "run" ? "100644" : mode, isShared });
    }
  }

  const changedNow = () =>
    [...open.values()]
      .filter(({ space, path, before }) => !layers[space].hasState(path, before))
      .sort((a, b) => (a.path < b.path ? -1 : 1));

  function markStored(): void {
    const touched = changedNow();
    const after = touched.map((change) => nowAt(layers, change));
    if (touched.length > 0) steps.push({ step: openStep, touched, after });
    open = new Map();
    openStep = "";
  }

  /** Applies stored changes to a new overlay, yielding to the event loop. */
  async function restore(stored: readonly StepChanges[]): Promise<void> {
    const loop = new EventLoopYielder();
    for (const { step, changes } of stored) {
      // Deletions first, so that a folder can replace a file.
      const gone = changes.filter(({ content }) => content === undefined);
      for (const { path, mode } of gone) remove(spaceOf(mode), path);
      for (const { path, content, mode } of changes) {
        if (content) write(spaceOf(mode), path, content, mode === "scratch" ? undefined : mode);
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
    move,
    restore,
    /** Reverts a path to the base. */
    reset: (path: string): void => {
      touch("repository", path);
      layers.repository.setState(path, { kind: "base" });
    },
    pendingChanges: (step: string): StepChanges | undefined => {
      openStep = step;
      const changes = changedNow().map((change) => nowAt(layers, change));
      return changes.length > 0 ? { step, changes } : undefined;
    },
    markStored,
    rollback: (): void => {
      const touched = [...open.values()];
      for (const { space, path } of touched) layers[space].remove(path);
      for (const { space, path, before } of touched) layers[space].setState(path, before);
      open = new Map();
      openStep = "";
    },
    /** Returns all stored steps, oldest first. The contents of the base must be loaded. */
    history: (): StoredStep[] =>
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
  const state = layers[space].state(path);
  return state.kind === "written" ? stored(space, path, state) : stored(space, path, layers[space].original(path));
}

/** Returns the content before a step. Computed on demand, since the base already contains most of it. */
function storedAt(base: Base, { space, path, before }: Touched): StoredChange {
  if (before.kind === "written") return stored(space, path, before);

  const entry = before.kind === "base" && space === "repository" ? base.entries.get(path) : undefined;
  return stored(space, path, entry && originalOf(base, entry));
}

function stored(space: Space, path: string, now: Content | undefined): StoredChange {
  return { path, content: now?.content, mode: space === "run" ? "scratch" : (now?.mode ?? "100644") };
}
