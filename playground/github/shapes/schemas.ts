import type { components } from "@octokit/openapi-types";

/** The response bodies of GitHub's REST API, as GitHub publishes them. */
export type Schemas = components["schemas"];
