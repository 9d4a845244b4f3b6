import { z } from "zod";

const domains = z
  .array(z.string().regex(/^[\w.-]+\.[a-z]{2,}(\/\S*)?$/i, "A domain is written like example.com"))
  .min(1)
  .max(100);

const WebSearchSettings = z
  .strictObject({
    /** Searches per model call. */
    max_uses: z.number().int().min(1).max(20).optional(),
    /** Searches only these domains and their subdomains. */
    allowed_domains: domains.optional(),
    blocked_domains: domains.optional(),
  })
  .refine(({ allowed_domains, blocked_domains }) => !(allowed_domains && blocked_domains), {
    message: "Give allowed_domains or blocked_domains, not both",
  });
export type WebSearchSettings = z.infer<typeof WebSearchSettings>;

/**
 * A tool that the model's provider runs while it generates an answer. Its calls never pass through this program, so
 * approvals and host lists do not apply. A worker has it only if its file names it.
 */
export const ServerSideTool = z.strictObject({
  name: z.literal("web_search", "The only server-side tool is web_search"),
  config: WebSearchSettings.optional(),
});
export type ServerSideTool = z.infer<typeof ServerSideTool>;
