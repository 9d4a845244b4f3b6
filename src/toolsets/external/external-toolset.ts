import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { closestMatch } from "#text/closest-match.ts";
import { applyApprovalSettings, checkApprovalNames } from "#toolsets/approval-settings.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { importPackage } from "./import-package.ts";
import { readTools } from "./read-tools.ts";

const External = z.strictObject({
  /** The npm package name, with a subpath if the package has several entry points. */
  package: z.string().min(1),
  /** The export that provides the tools. */
  import: z.string().min(1),
  approval: ApprovalConfig.optional(),
});
type External = z.infer<typeof External>;

const config = z.preprocess((given) => [given].flat(), z.array(External).min(1).max(20));

/** Tools from npm packages installed by the deployment. They run in this process, with the access of the deployment's own code. */
export const externalToolset: Toolset<z.infer<typeof config>> = {
  name: "external",
  config,
  async create(given, { workerDirectory, spec: { worker, origin } }) {
    if (workerDirectory === undefined) {
      throw new UserError(
        `The worker ${worker.name} comes from ${origin.owner}/${origin.repo} and uses npm packages. Only the deployment's ` +
          "own workers may use them, because packages run with the full access of Golem Forge.",
      );
    }
    const tools = await Promise.all(given.map((external) => openExternal(external, workerDirectory)));
    return tools.flat();
  },
};

async function openExternal({ package: name, import: exportName, approval }: External, folder: string) {
  const exports = await importPackage(name, folder);
  if (!Object.hasOwn(exports, exportName)) throw new UserError(missingExport(exports, name, exportName));

  const tools = await readTools(exports[exportName], exportName, `${exportName} of ${name}`);
  const names = tools.map((tool) => tool.name);
  checkApprovalNames(approval, names, name);
  return tools.map((tool) => applyApprovalSettings(tool, approval));
}

function missingExport(exports: Record<string, unknown>, name: string, exportName: string): string {
  const exported = Object.keys(exports)
    .filter((key) => key !== "module.exports")
    .sort();
  const near = closestMatch(exportName, exported);
  return (
    `import: ${name} has no export ${exportName}.${near ? ` Did you mean ${near}?` : ""} ` +
    `It exports: ${exported.slice(0, 50).join(", ") || "nothing"}.`
  );
}
