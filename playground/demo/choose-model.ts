/** The default model for each provider's key, in order of preference. */
const defaultModels: [variable: string, model: string][] = [
  ["ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"],
  ["OPENAI_API_KEY", "openai:gpt-6.1-sol"],
  ["GOOGLE_GENERATIVE_AI_API_KEY", "google:gemini-3.8-flash"],
];

/**
 * Returns the model for the demo: the requested one, GOLEM_FORGE_MODEL, or the default of the first provider with a key.
 * Returns undefined, for the scripted model, without a key or if the models of an OpenAI-compatible server are unknown.
 */
export function chooseModel(
  requested: string | undefined,
  environment: Record<string, string | undefined>,
): string | undefined {
  const named = requested ?? environment.GOLEM_FORGE_MODEL;
  if (named) return named;
  const [variable, model] = defaultModels.find(([name]) => environment[name]) ?? [];
  return variable === "OPENAI_API_KEY" && environment.OPENAI_BASE_URL ? undefined : model;
}
