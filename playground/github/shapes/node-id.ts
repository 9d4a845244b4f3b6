/** The global id of a node in GraphQL. */
export function nodeId(type: string, id: number): string {
  return Buffer.from(`${type}:${id}`).toString("base64url");
}
