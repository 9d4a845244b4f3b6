import { UserError } from "#domain/errors.ts";

const maxEntries = 500_000;
const maxDepth = 200;
const maxPathBytes = 128 * 1024 ** 2;

/**
 * Bounds a walk over trees. A few small trees can refer to each other so often that a walk never ends, and a push of
 * them takes a second.
 */
export class TreeBudget {
  readonly #name: string;
  #entriesLeft = maxEntries;
  #bytesLeft = maxPathBytes;

  /** `name` is what has too many files, such as `The repository`. */
  constructor(name: string) {
    this.#name = name;
  }

  /** Counts an entry of a tree. Throws a UserError when the walk is too large or too deep. */
  spend(path: string, depth: number): void {
    this.#entriesLeft--;
    this.#bytesLeft -= path.length;
    if (this.#entriesLeft < 0 || this.#bytesLeft < 0) {
      throw new UserError(
        `${this.#name} has too many files to work on: more than ${maxEntries.toLocaleString("en-US")}.`,
      );
    }
    if (depth > maxDepth) throw new UserError(`${this.#name} has folders nested too deeply to work on.`);
  }
}
