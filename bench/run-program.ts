import { type SpawnOptions, spawn } from "node:child_process";

/** Runs a program and resolves to its standard output. Rejects if the exit code is not 0. */
export function runProgram(program: string, args: readonly string[], options: SpawnOptions = {}): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
    let printed = "";
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      printed += text;
    });
    child.on("error", reject);
    child.on("close", (code) => {
      if (code === 0) resolve(printed);
      else reject(new Error(`${program} ${args[0] ?? ""} ended with ${code}`));
    });
  });
}
