import type { Config } from "#config/config.ts";
import { createModels } from "#models/create-models.ts";
import { ModelFailure, type Models } from "#models/models.ts";

type Settings = Config["models"];

/** Keys and addresses of providers. Providers that are left out are not configured. */
export type ModelSettings = {
  /** `provider:model`. */
  default?: string;
} & { [Provider in Exclude<keyof Settings, "default">]?: Partial<Settings[Provider]> };

/** Returns the models of a program: its own, those of its settings, or those of the environment. */
export function chooseModels(given: Models | ModelSettings | undefined): Models {
  if (given && "call" in given) return withFailures(given);

  const { default: model, anthropic, openai, google, compatible } = given ?? settingsOf(process.env);
  return createModels({
    default: model,
    anthropic: { apiKey: undefined, baseUrl: undefined, ...anthropic },
    openai: { apiKey: undefined, baseUrl: undefined, ...openai },
    google: { apiKey: undefined, ...google },
    compatible: { apiKey: undefined, baseUrl: undefined, ...compatible },
  });
}

/** Converts the errors of a program's own models, which may be of any kind, so that the run ends with their message. */
function withFailures(models: Models): Models {
  return {
    defaultModel: models.defaultModel,
    findModelProblem: (model) => models.findModelProblem(model),
    findToolProblem: (model, tool) => models.findToolProblem(model, tool),
    call: (request) =>
      models.call(request).catch((error) => {
        if (error instanceof ModelFailure || request.signal.aborted) throw error;
        const message = error instanceof Error ? error.message : String(error);
        throw new ModelFailure(message, { retryable: false, cause: error });
      }),
  };
}

function settingsOf(environment: NodeJS.ProcessEnv): ModelSettings {
  const value = (name: string) => environment[name] || undefined;
  return {
    default: value("GOLEM_FORGE_MODEL"),
    anthropic: { apiKey: value("ANTHROPIC_API_KEY"), baseUrl: value("ANTHROPIC_BASE_URL") },
    openai: { apiKey: value("OPENAI_API_KEY"), baseUrl: value("OPENAI_BASE_URL") },
    google: { apiKey: value("GOOGLE_GENERATIVE_AI_API_KEY") },
    compatible: { apiKey: value("OPENAI_COMPATIBLE_API_KEY"), baseUrl: value("OPENAI_COMPATIBLE_BASE_URL") },
  };
}
