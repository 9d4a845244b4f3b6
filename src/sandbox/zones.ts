import type { ApprovalDecisionType } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import type { ZoneRule } from "#domain/workspace.ts";
import { isWithin, parsePath } from "./paths.ts";
import type { OpenSandbox } from "./sandbox.ts";

/** Whether a path lies in the repository or beside it, kept with the run and never committed. */
export type Space = "repository" | "run";

/** What one worker may see and do, narrowed by each policy between it and the root worker. */
export interface Zones {
  ruleFor(path: string): ZoneRule;
  spaceOf(path: string): Space;
  /** False for what the worker must not even know of. */
  canSee(path: string): boolean;
  /** True for a folder above something the worker sees: it may be listed, as far as it leads there. */
  leadsToVisible(folder: string): boolean;
  /** The folders that lie beside the repository, as far as they are seen. */
  runFolders(): string[];
  /** The same with a further policy on top. It can only narrow. */
  narrow(policy: SandboxPolicy | undefined): Zones;
}

interface PolicyLayer {
  restrict: string;
  readonly: boolean;
  zones: { name: string; path: string; space: Space; rule: Omit<ZoneRule, "zone"> }[];
  defaultRule: LayerRule;
}

/** What one policy says of a path. One that does not cover the path leaves consent to the policies below it. */
interface LayerRule extends ZoneRule {
  isCovered: boolean;
}

/** Throws a UserError for a policy whose paths make no sense. */
export function createZones(policy: OpenSandbox["policy"]): Zones {
  const [root, ...below] = [policy ?? {}].flat();
  return below.reduce<Zones>((zones, next) => zones.narrow(next), zonesOf([parsePolicy(root ?? {})]));
}

function zonesOf(layers: readonly [PolicyLayer, ...PolicyLayer[]]): Zones {
  const spaceOf = (path: string): Space =>
    layers.some((layer) => zoneAt(layer, path)?.space === "run") ? "run" : "repository";
  const sees = (path: string) => layers.every((layer) => layerSees(layer, path));
  const runFolders = () => [
    ...new Set(
      layers
        .flatMap((layer) => layer.zones.filter(({ space }) => space === "run").map(({ path }) => path))
        .filter(sees),
    ),
  ];
  return {
    ruleFor: (path) => {
      const { isCovered: _, ...rule } = layers.map((layer) => layerRule(layer, path)).reduce(stricter);
      return rule;
    },
    spaceOf,
    canSee: sees,
    leadsToVisible: (folder) =>
      layers.every((layer) => layerSees(layer, folder) || layerLeads(layer, folder)) ||
      runFolders().some((path) => isWithin(path, folder)),
    runFolders,
    narrow: (policy) => zonesOf(policy ? [...layers, parsePolicy(policy)] : layers),
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
          // What is kept beside the repository changes nothing of it.
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
    throw new UserError(`The sandbox of this worker cannot be set up, ${what}: ${(error as Error).message}`, {
      cause: error,
    });
  }
}

/** The most specific zone: they are sorted by length, longest first. */
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

function layerLeads(layer: PolicyLayer, folder: string): boolean {
  return isWithin(layer.restrict, folder);
}

// Without a rule the tool decides, and may still ask, so `undefined` is stricter than consent in advance.
const strictness: (ApprovalDecisionType | undefined)[] = ["blocked", "ask", undefined, "preApproved"];

function stricter(outer: LayerRule, inner: LayerRule): LayerRule {
  const strictest = (operation: "write" | "delete") => {
    const rules = [outer, inner]
      .filter(({ isCovered }) => isCovered)
      .map((rule) => strictness.indexOf(rule[operation]));
    return rules.length > 0 ? strictness[Math.min(...rules)] : undefined;
  };
  return {
    zone: inner.zone || outer.zone,
    isCovered: outer.isCovered || inner.isCovered,
    mode: outer.mode === "ro" ? "ro" : inner.mode,
    write: strictest("write"),
    delete: strictest("delete"),
  };
}
