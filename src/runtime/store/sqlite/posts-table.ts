import type { EffectCompletion, Post } from "#runtime/store/store.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** The comments that stand in threads, by the name they were posted under. */
export interface PostsTable {
  put(post: NonNullable<EffectCompletion["post"]>, now: number): void;
  find(name: string): Post | undefined;
}

export function postsTable(sql: SqliteConnection): PostsTable {
  return {
    put: ({ name, commentId }, now) => {
      sql.run(
        `insert into posts (name, comment_id, updated_at) values (:name, :commentId, :now)
          on conflict (name) do update set comment_id = excluded.comment_id, updated_at = excluded.updated_at`,
        { name, commentId, now },
      );
    },
    find: (name) =>
      sql
        .all<Post>("select comment_id as commentId, updated_at as updatedAt from posts where name = :name", { name })
        .map(({ commentId, updatedAt }) => ({ commentId, updatedAt }))[0],
  };
}
