import { OutageError, UserError } from "#domain/errors.ts";
import { GitHubRefusal } from "#domain/github.ts";

/** What Octokit throws for an answer that is not a success, as far as it is read here. */
export interface RequestError {
  status?: number;
  message?: string;
  response?: {
    headers?: Record<string, string | number | undefined>;
    data?: { message?: string; errors?: { field?: string; message?: string }[] };
  };
}

/** Turns an answer that GitHub will repeat into a GitHubRefusal; throws whatever may pass as it is. */
export async function withRefusals<T>(
  { owner, repo }: { owner: string; repo: string },
  ask: () => Promise<T>,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    const { status = 0, message = "" } = error as RequestError;
    const name = `${owner}/${repo}`;
    const refusal = {
      403: `GitHub does not allow this app to do that in ${name} (403): ${message.replace(/ - https:.*$/s, "")}`,
      404: `GitHub does not find that in ${name}, or does not show it to this app (404). It may have been deleted or moved, or the app may no longer be installed there.`,
      410: `That is gone from ${name} (410).`,
      451: `GitHub withholds that in ${name} for legal reasons (451).`,
    }[status];
    if (!refusal || isRateLimit(error)) throw error;
    throw new GitHubRefusal(refusal, { status, cause: error });
  }
}

/** True for an answer that asks for fewer requests. */
function isRateLimit(error: unknown): boolean {
  const { status, message = "", response } = error as RequestError;
  if (status === 429) return true;
  return status === 403 && (response?.headers?.["retry-after"] !== undefined || /rate limit/i.test(message));
}

/** True where GitHub did not answer, or asked to wait: the same request may succeed later. */
export function isOutage(error: unknown): boolean {
  if (error instanceof OutageError) return true;
  if (error instanceof UserError) return false;
  return ((error as RequestError)?.status ?? 0) >= 500 || isRateLimit(error);
}

/** True where GitHub rejected this field of the request. */
export function isInvalidField(error: unknown, field: string): boolean {
  const { status, response } = error as RequestError;
  return status === 422 && (response?.data?.errors ?? []).some((problem) => problem.field === field);
}

/** True where the owner's plan has no draft pull requests, as for private repositories on GitHub Free. */
export function hasNoDrafts(error: unknown): boolean {
  const { status, response } = error as RequestError;
  const messages = [response?.data?.message, ...(response?.data?.errors ?? []).map(({ message }) => message)];
  return status === 422 && messages.some((message) => /draft pull requests are not supported/i.test(message ?? ""));
}

/** Resolves to undefined for what does not exist, or no longer does. */
export async function undefinedIfMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    const { status } = error as RequestError;
    if (status === 404 || status === 410) return undefined;
    throw error;
  }
}
