/** An opaque global id, as GraphQL would know it. */
export function nodeId(type: string, id: number): string {
  return Buffer.from(`${type}:${id}`).toString("base64url");
}
