import type { Workspace } from "#domain/workspace.ts";
import { readManifest } from "./package-manifest.ts";

export interface Formatter {
  name: string;
  command(paths: readonly string[]): string[];
}

const everything = (paths: readonly string[]) => (paths.length > 0 ? [...paths] : ["."]);

/** The formatter a folder of the tree asks for by its files; undefined when it has none we know. */
export async function findFormatter(workspace: Workspace, folder: string): Promise<Formatter | undefined> {
  const at = (name: string) => (folder === "" ? name : `${folder}/${name}`);
  const manifest = await readManifest(workspace, at("package.json"));
  if (manifest?.dependencies.has("@biomejs/biome")) {
    return {
      name: "biome",
      command: (paths) => ["npx", "--no-install", "biome", "format", "--write", "--", ...everything(paths)],
    };
  }
  if (manifest?.dependencies.has("prettier")) {
    return {
      name: "prettier",
      command: (paths) => ["npx", "--no-install", "prettier", "--write", "--", ...everything(paths)],
    };
  }
  if (manifest?.scripts.format) return { name: "npm run format", command: () => ["npm", "run", "--silent", "format"] };
  if (await workspace.exists(at("go.mod"))) {
    return { name: "gofmt", command: (paths) => ["gofmt", "-l", "-w", "--", ...everything(paths)] };
  }
  if (await workspace.exists(at("Cargo.toml"))) return { name: "cargo fmt", command: () => ["cargo", "fmt"] };
  return pythonFormatter(workspace, at);
}

async function pythonFormatter(workspace: Workspace, at: (name: string) => string): Promise<Formatter | undefined> {
  const texts = await Promise.all(
    ["pyproject.toml", "ruff.toml", ".ruff.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt"].map(
      async (name) =>
        (await workspace.exists(at(name)))
          ? `${name}\n${Buffer.from(await workspace.read(at(name))).toString("utf8")}`
          : "",
    ),
  );
  const settings = texts.join("\n");
  const python = (name: string, ...options: string[]): Formatter => ({
    name,
    command: (paths) => ["python3", "-m", name, ...options, "--", ...everything(paths)],
  });
  if (/\bruff\b/.test(settings)) return python("ruff", "format");
  return /\bblack\b/.test(settings) ? python("black", "-q") : undefined;
}
