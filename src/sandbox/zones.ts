import type { ApprovalDecisionType } from "#domain/approval.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import type { ZoneRule } from "#domain/workspace.ts";
import { isWithin, parsePath } from "./paths.ts";
import type { OpenSandbox } from "./sandbox.ts";

/** The storage of a path: the repository, or the run, whose files are never committed. */
export type Space = "repository" | "run";

/** The paths that a worker can see and change, under all policies from the root worker down to it. */
export interface Zones {
  ruleFor(path: string): ZoneRule;
  spaceOf(path: string): Space;
  /** False for paths whose existence is hidden from the worker. */
  canSee(path: string): boolean;
  /** True for the root, and for a folder that contains visible paths. Listing it shows only these. */
  leadsToVisible(folder: string): boolean;
  /** The visible folders that are stored with the run. */
  runFolders(): string[];
  /** Adds another policy, which can only narrow. */
  narrow(policy: SandboxPolicy | undefined): Zones;
}

interface PolicyLayer {
  restrict: string;
  readonly: boolean;
  zones: { name: string; path: string; space: Space; rule: Omit<ZoneRule, "zone"> }[];
  defaultRule: LayerRule;
}

/** One policy's rule for a path. A policy that does not cover the path leaves the approval to the policies below it. */
interface LayerRule extends ZoneRule {
  isCovered: boolean;
}

/** The rules of paths for which no policy has one. Default: none, and the tools decide. */
type DefaultRules = Partial<Pick<ZoneRule, "write">>;

/** The default of a sandbox that people are asked about, with the whole diff, before anything leaves it. */
export const isolatedSandbox: DefaultRules = { write: "preApproved" };

/** Throws a UserError for a policy with an invalid path. */
export function createZones(policy: OpenSandbox["policy"], defaults: DefaultRules = {}): Zones {
  const [root, ...below] = [policy ?? {}].flat();
  return below.reduce<Zones>((zones, next) => zones.narrow(next), zonesOf([parsePolicy(root ?? {})], defaults));
}

function zonesOf(layers: readonly [PolicyLayer, ...PolicyLayer[]], defaults: DefaultRules): Zones {
  const spaceOf = (path: string): Space =>
    layers.some((layer) => zoneAt(layer, path)?.space === "run") ? "run" : "repository";
  const sees = (path: string) => layers.every((layer) => layerSees(layer, path));
  // Every visible path is within one of these.
  const folders = layers.flatMap(({ restrict, zones }) => [restrict, ...zones.map(({ path }) => path)]);
  const visibleFolders = [...new Set(folders)].filter(sees);
  return {
    ruleFor: (path) => {
      const { isCovered: _, ...rule } = layers.map((layer) => layerRule(layer, path)).reduce(stricter);
      return { ...rule, write: rule.write ?? defaults.write };
    },
    spaceOf,
    canSee: sees,
    leadsToVisible: (folder) => folder === "" || sees(folder) || visibleFolders.some((path) => isWithin(path, folder)),
    runFolders: () => visibleFolders.filter((path) => spaceOf(path) === "run"),
    narrow: (policy) => zonesOf(policy ? [...layers, parsePolicy(policy)] : layers, defaults),
  };
}

function parsePolicy(policy: SandboxPolicy): PolicyLayer {
  const readonly = policy.readonly ?? false;
  const restrict = policyPath(policy.restrict ?? "", "restrict");
  return {
    restrict,
    readonly,
    zones: (policy.zones ?? [])
      .map(({ name, path, keep, mode, approval }) => {
        const space: Space = keep === "run" ? "run" : "repository";
        const rule = {
          // Read-only policies protect the repository; files stored with the run do not change it.
          mode: readonly && space === "repository" ? ("ro" as const) : mode,
          write: approval?.write,
          delete: approval?.delete,
        };
        return { name, path: policyPath(path ?? name, `the zone ${name}`), space, rule };
      })
      .sort((a, b) => b.path.length - a.path.length),
    defaultRule: {
      zone: "",
      isCovered: readonly || restrict !== "" || policy.approval !== undefined,
      mode: readonly ? "ro" : "rw",
      write: policy.approval?.write,
      delete: policy.approval?.delete,
    },
  };
}

function policyPath(path: string, what: string): string {
  try {
    return parsePath(path);
  } catch (error) {
    throw new UserError(`The sandbox policy of this worker is invalid at ${what}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** Returns the most specific zone of a path. Zones are sorted by path length, longest first. */
function zoneAt(layer: PolicyLayer, path: string) {
  return layer.zones.find((zone) => isWithin(path, zone.path));
}

function layerRule(layer: PolicyLayer, path: string): LayerRule {
  const zone = zoneAt(layer, path);
  return zone ? { zone: zone.name, isCovered: true, ...zone.rule } : layer.defaultRule;
}

function layerSees(layer: PolicyLayer, path: string): boolean {
  return isWithin(path, layer.restrict) || zoneAt(layer, path)?.space === "run";
}

// Strictest first. Without a rule the tool decides and may still ask, so `preApproved` is weaker than no rule.
const strictness: (ApprovalDecisionType | undefined)[] = ["blocked", "ask", undefined, "preApproved"];

function stricter(outer: LayerRule, inner: LayerRule): LayerRule {
  const strictest = (operation: "write" | "delete") => {
    const rules = [outer, inner]
      .filter(({ isCovered }) => isCovered)
      .map((rule) => strictness.indexOf(rule[operation]));
    return strictness[Math.min(...rules)];
  };
  return {
    zone: inner.zone || outer.zone,
    isCovered: outer.isCovered || inner.isCovered,
    mode: outer.mode === "ro" ? "ro" : inner.mode,
    write: strictest("write"),
    delete: strictest("delete"),
  };
}
