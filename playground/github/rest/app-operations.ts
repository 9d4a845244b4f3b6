import { z } from "zod";
import { showApp, showInstallation } from "#playground/github/shapes/app.ts";
import { showRepository } from "#playground/github/shapes/repository.ts";
import type { WebhookDelivery } from "#playground/github/webhooks.ts";
import {
  type AppPermissions,
  type Installation,
  nameKey,
  type Repository,
  type World,
} from "#playground/github/world.ts";
import { ApiError, notFound, orNotFound, validationFailed } from "./api-error.ts";
import { appOperation, numberIn, parseBody, type RestOperation, respondWithPage } from "./operation.ts";

const TokenRequest = z.object({
  repositories: z.array(z.string()).max(500).optional(),
  repository_ids: z.array(z.number()).max(500).optional(),
  permissions: z.record(z.string(), z.enum(["read", "write"])).optional(),
});

export const appOperations: RestOperation[] = [
  appOperation("get", "/app", ({ world }) => ({ status: 200, body: showApp(world, world.app) })),

  appOperation("get", "/app/installations", (request) => {
    const { world } = request;
    return respondWithPage(request, [...world.installations.values()], (one) => showInstallation(world, one));
  }),

  appOperation("post", "/app/installations/{installation_id}/access_tokens", (request) => {
    const { world, credentials } = request;
    const installation = orNotFound(world.installations.get(numberIn(request, "installation_id")));
    if (installation.suspended) throw new ApiError(403, "This installation has been suspended");
    const narrowed = parseBody(request, "Installation", TokenRequest);
    const permissions = narrowPermissions(world.app.permissions, narrowed.permissions);
    const repositories = chooseRepositories(world, installation, narrowed);
    const ids = repositories && new Set(repositories.map(({ id }) => id));

    const token = credentials.issue({ installation, permissions, repositories: ids });
    return {
      status: 201,
      body: {
        token: token.value,
        expires_at: token.expiresAt.toISOString().replace(/\.\d+Z$/, "Z"),
        permissions,
        repository_selection: "selected" as const,
        ...(repositories && { repositories: repositories.map((one) => showRepository(world, one, permissions)) }),
      },
    };
  }),

  appOperation("get", "/app/hook/config", ({ webhooks: { target } }) => ({
    status: 200,
    body: { content_type: "json", insecure_ssl: "0", secret: "********", ...(target && { url: target.url }) },
  })),

  appOperation("get", "/app/hook/deliveries", (request) => {
    return respondWithPage(request, request.webhooks.deliveries.toReversed(), showDelivery);
  }),

  appOperation("post", "/app/hook/deliveries/{delivery_id}/attempts", (request) => {
    if (!request.webhooks.redeliver(numberIn(request, "delivery_id"))) throw notFound();
    return { status: 202, body: {} };
  }),
];

function narrowPermissions(granted: AppPermissions, asked: AppPermissions | undefined): AppPermissions {
  if (!asked) return granted;

  const excessive = Object.entries(asked).filter(
    ([name, level]) => granted[name] !== "write" && !(granted[name] === "read" && level === "read"),
  );
  if (excessive.length === 0) return { metadata: "read", ...asked };
  throw validationFailed(
    ...excessive.map(([field]) => ({
      resource: "Installation",
      code: "custom" as const,
      field,
      message: "The permissions requested are not granted to this installation.",
    })),
  );
}

function chooseRepositories(
  world: World,
  installation: Installation,
  request: z.infer<typeof TokenRequest>,
): Repository[] | undefined {
  if (!request.repositories && !request.repository_ids) return undefined;

  const names = new Set(request.repositories?.map(nameKey));
  const ids = new Set(request.repository_ids);
  const chosen = [...world.repositories.values()].filter(
    (repository) =>
      repository.installation === installation && (ids.has(repository.id) || names.has(nameKey(repository.name))),
  );
  if (chosen.length === names.size + ids.size) return chosen;
  throw validationFailed({
    resource: "Installation",
    code: "custom",
    message: "There is at least one repository that does not exist or is not accessible to the parent installation.",
  });
}

function showDelivery(delivery: WebhookDelivery) {
  return {
    id: delivery.id,
    guid: delivery.guid,
    delivered_at: delivery.deliveredAt.toISOString(),
    redelivery: delivery.redelivery,
    duration: delivery.duration,
    status: describeStatus(delivery.statusCode),
    status_code: delivery.statusCode ?? 0,
    event: delivery.event,
    action: delivery.action ?? null,
    installation_id: delivery.installationId,
    repository_id: delivery.repositoryId ?? null,
    throttled_at: null,
  };
}

function describeStatus(code: number | undefined): string {
  if (code === undefined) return "Pending";
  if (code === 0) return "Could not connect to server";
  return code < 300 ? "OK" : `Invalid HTTP Response: ${code}`;
}
