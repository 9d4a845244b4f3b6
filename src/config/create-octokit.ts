import { RequestError } from "@octokit/request-error";
import { Octokit } from "@octokit/rest";
import { githubApiVersion } from "#domain/github.ts";

type OctokitOptions = Pick<NonNullable<ConstructorParameters<typeof Octokit>[0]>, "auth" | "baseUrl" | "request"> & {
  warn?: (message: string) => void;
};

/** Creates a client of GitHub's REST API, in the version that this program is written for. Its log is silent by default. */
export function createOctokit({ warn = () => {}, auth, baseUrl, request }: OctokitOptions = {}): Octokit {
  const silent = () => {};
  const log = { debug: silent, info: silent, warn, error: silent };
  const octokit = new Octokit({
    userAgent: "golem-forge",
    log,
    ...(auth && { auth }),
    ...(baseUrl && { baseUrl }),
    // Octokit does not pass its log on to the part that warns about deprecated paths.
    request: { ...request, log },
  });
  octokit.hook.before("request", ({ headers }) => {
    headers["x-github-api-version"] = githubApiVersion;
  });
  octokit.hook.after("request", ({ status, data, headers, url }, { method }) => {
    // Octokit returns what has arrived of a JSON text when the connection breaks. A redirect or 204 has no text.
    if (status > 201 || typeof data !== "string" || !/^application\/json\b/.test(headers["content-type"] ?? "")) return;
    throw new RequestError("The connection to GitHub broke.", 502, { request: { method, url, headers: {} } });
  });
  return octokit;
}
