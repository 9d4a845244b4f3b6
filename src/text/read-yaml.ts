import { parse } from "yaml";
import { UserError } from "#domain/errors.ts";

/** Reads YAML that a person wrote. Throws a UserError that names it, `The front matter of fixer.worker`, and the line. */
export function readYaml(text: string, name: string): unknown {
  try {
    // Aliases multiply: a few lines could stand for gigabytes.
    return parse(text, { maxAliasCount: 20 });
  } catch (error) {
    // The rest of the message draws the place, which a comment on GitHub does not show as it was drawn.
    const [problem = ""] = (error instanceof Error ? error.message : String(error)).split("\n", 1);
    throw new UserError(`${name} is not YAML: ${problem.replace(/:$/, ".")}`, { cause: error });
  }
}
