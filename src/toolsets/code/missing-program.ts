import type { ExecResult } from "#executors/executor.ts";

/** What to do about a program or package that was not there, as a sentence; undefined when nothing says so. */
export function missingProgram({ exitCode, stderr }: Pick<ExecResult, "exitCode" | "stderr">): string | undefined {
  if (exitCode === 0) return undefined;
  const absent = /^prlimit: failed to execute (\S{1,100}): No such file/m.exec(stderr)?.[1];
  if (absent) {
    return `There is no ${absent} in this sandbox, and install_package does not bring it: the deployment has to (GOLEM_FORGE_SANDBOX_TOOL_PATHS).`;
  }
  const isPackage =
    /\bENOTCACHED\b|could not determine executable to run|^sh: .{0,200}: not found$|\bNo module named ['"]?(pytest|black|ruff)\b|Cannot find (module|package) '[^./#]/m;
  return isPackage.test(stderr) ? "A package it needs is not installed: install_package brings it." : undefined;
}
