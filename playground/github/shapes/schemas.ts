import type { components } from "@octokit/openapi-types";

/** The bodies of GitHub's answers, as GitHub publishes them. */
export type Schemas = components["schemas"];
