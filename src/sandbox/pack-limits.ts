/** What a repository may cost at most. A pack names the sizes of what it holds, and whoever made it chose them. */
export const packLimits = {
  /** Bytes over the wire for one answer. */
  pack: 300 * 1024 ** 2,
  /** One object, unpacked. */
  object: 100 * 1024 ** 2,
  /** All objects of one pack, unpacked. */
  total: 2 * 1024 ** 3,
  objects: 2_000_000,
};
export type PackLimits = typeof packLimits;
