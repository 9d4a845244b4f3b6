import type { Config } from "#config/config.ts";
import type { CallTimeouts } from "./call-timeouts.ts";
import { findModelNameProblem, ModelFailureError, type Models, type ModelTelemetry, parseModelName } from "./models.ts";
import { findSearch, type Provider, providers } from "./providers.ts";

const defaultTimeouts: CallTimeouts = { firstMs: 5 * 60_000, idleMs: 2 * 60_000, totalMs: 30 * 60_000 };

/**
 * Creates the configured models. The AI SDK and the packages of providers are loaded at the first call.
 * `timeouts` override the defaults: 5 minutes until the answer begins, 2 minutes between two parts, and 30 minutes in total.
 */
export function createModels(
  config: Config["models"],
  timeouts: Partial<CallTimeouts> = {},
  telemetry: () => ModelTelemetry | undefined = () => undefined,
): Models {
  const known = providers(config);
  const limits = { ...defaultTimeouts, ...timeouts };

  return {
    defaultModel: config.default,
    findModelProblem: (model) => findProblem(known, model),
    findToolProblem: (name, tool) => {
      const { provider, model } = parseModelName(name);
      const search = findSearch(known.get(provider), model, tool);
      return typeof search === "string" ? search : undefined;
    },
    async call(given) {
      given.signal.throwIfAborted();
      const provider = known.get(parseModelName(given.model).provider);
      const problem = findProblem(known, given.model);
      if (!provider || problem) throw new ModelFailureError(problem ?? "", { retryable: false });

      const { callProvider } = await import("./call-provider.ts");
      return callProvider(given, provider, { limits, telemetry: telemetry() });
    },
  };
}

function findProblem(known: Map<string, Provider>, name: string): string | undefined {
  const problem = known.get(parseModelName(name).provider)?.problem;
  return findModelNameProblem(name) ?? (problem && `The model ${name} cannot be used: ${problem}`);
}
