import { RequestError } from "@octokit/request-error";
import { z } from "zod";
import { OutageError } from "#domain/errors.ts";
import { GitHubRefusalError } from "#domain/github.ts";

/** The body of an answer that refuses a request. */
const RefusedBody = z.object({
  message: z.string().default(""),
  errors: z
    .array(z.object({ field: z.string().optional(), message: z.string().default("") }))
    .catch([])
    .default([]),
});

/** Returns the HTTP status of the answer that an error reports; undefined for an error that reports none. */
export function httpStatusOf(error: unknown): number | undefined {
  return error instanceof RequestError || error instanceof GitHubRefusalError ? error.status : undefined;
}

/** Turns an answer that GitHub will repeat into a GitHubRefusalError; throws every other error as it is. */
export async function withRefusals<T>(
  { owner, repo }: { owner: string; repo: string },
  ask: () => Promise<T>,
): Promise<T> {
  try {
    return await ask();
  } catch (error) {
    if (!(error instanceof RequestError) || isRateLimit(error)) throw error;
    const { status, message } = error;
    const name = `${owner}/${repo}`;
    const path = pathOf(error);
    const refusal = {
      403: `GitHub does not allow this app to request ${error.request.method} ${path} in ${name} (403): ${message.replace(/ - https:.*$/s, "")}`,
      404: `GitHub cannot find ${path} in ${name}, or does not show it to this app (404). It may have been deleted or moved, or this app may no longer be installed there.`,
      410: `${path} no longer exists in ${name} (410).`,
      451: `GitHub has blocked ${path} in ${name} for legal reasons (451).`,
    }[status];
    if (!refusal) throw error;
    throw new GitHubRefusalError(refusal, { status, cause: error });
  }
}

/** Returns the path of the request, without the repository: `/issues/3/comments`. */
function pathOf({ request }: RequestError): string {
  return new URL(request.url).pathname.replace(/^.*?\/repos\/[^/]+\/[^/]+(?=\/)/, "");
}

/** True for an answer that asks for fewer requests. */
function isRateLimit({ status, message, response }: RequestError): boolean {
  if (status === 429) return true;
  return status === 403 && (response?.headers["retry-after"] !== undefined || /rate limit/i.test(message));
}

/** True where GitHub did not answer, or asked to wait: the same request may succeed later. */
export function isOutage(error: unknown): boolean {
  if (error instanceof OutageError) return true;
  return error instanceof RequestError && (error.status >= 500 || isRateLimit(error));
}

/** True where GitHub rejected the base branch of a pull request. */
export function isInvalidBase(error: unknown): boolean {
  return unprocessable(error)?.errors.some(({ field }) => field === "base") === true;
}

/** True where the owner's plan has no draft pull requests, as for private repositories on GitHub Free. */
export function hasNoDrafts(error: unknown): boolean {
  const { message, errors = [] } = unprocessable(error) ?? {};
  const messages = [message ?? "", ...errors.map((problem) => problem.message)];
  return messages.some((text) => /draft pull requests are not supported/i.test(text));
}

/** Returns the body of an answer that rejects the content of a request; undefined for any other error. */
function unprocessable(error: unknown): z.infer<typeof RefusedBody> | undefined {
  if (!(error instanceof RequestError) || error.status !== 422) return undefined;
  return RefusedBody.safeParse(error.response?.data).data;
}

/** True where the repository does not let jobs of GitHub Actions open pull requests. */
export function mayNotOpenPullRequests(error: unknown): boolean {
  const { status, message = "" } = error as RequestError;
  return status === 403 && /not permitted to create or approve pull requests/i.test(message);
}

/** Resolves to undefined for what does not exist, or no longer does. */
export async function undefinedIfMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    const status = httpStatusOf(error);
    if (status === 404 || status === 410) return undefined;
    throw error;
  }
}
