/** The model for whoever has a key and names none, first key first. */
const modelOfKey: [variable: string, model: string][] = [
  ["ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5"],
  ["OPENAI_API_KEY", "openai:gpt-6.1-sol"],
  ["GOOGLE_GENERATIVE_AI_API_KEY", "google:gemini-3.8-flash"],
];

/**
 * The model the demo works with: the one asked for, the deployment's, or a usual one of the provider whose key is set.
 * Undefined, so that the scripted model answers, when there is no key, or a server of one's own whose models nobody knows.
 */
export function chooseModel(
  asked: string | undefined,
  environment: Record<string, string | undefined>,
): string | undefined {
  const named = asked ?? environment.GOLEM_FORGE_MODEL;
  if (named) return named;
  const [variable, model] = modelOfKey.find(([name]) => environment[name]) ?? [];
  return variable === "OPENAI_API_KEY" && environment.OPENAI_BASE_URL ? undefined : model;
}
