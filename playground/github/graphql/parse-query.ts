import { ApiError } from "#playground/github/rest/api-error.ts";

/** A field of a GraphQL document with what is selected below it; undefined for a leaf. */
export interface Selection {
  name: string;
  alias: string;
  args: Record<string, unknown>;
  fields: Selection[] | undefined;
}

const token = /[\s,]*(?:#[^\n]*\s*)*(\.\.\.|[{}()[\]:!=$@|&]|"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|[A-Za-z_]\w*)/y;

/** Parses the part of GraphQL that clients of GitHub use: one operation with variables, arguments, aliases and inline fragments. */
export function parseQuery(
  text: string,
  variables: Record<string, unknown>,
): { kind: "query" | "mutation"; fields: Selection[] } {
  const tokens = tokenize(text);
  let position = 0;
  const peek = () => tokens[position];
  const next = () => tokens[position++] ?? "";
  const accept = (expected: string) => peek() === expected && Boolean(next());
  const expect = (expected: string) => {
    if (!accept(expected)) throw syntaxError(peek());
  };

  function value(): unknown {
    const first = next();
    if (first === "$") return variables[next()];
    if (first === "[") return listUntil("]", value);
    if (first === "{") {
      const entries = listUntil("}", () => {
        const name = next();
        expect(":");
        return [name, value()] as const;
      });
      return Object.fromEntries(entries);
    }
    // Everything else that is not a string, a number, a boolean or null is the name of an enum's value.
    return /^["\d-]|^(true|false|null)$/.test(first) ? JSON.parse(first) : first;
  }

  function listUntil<T>(end: string, item: () => T): T[] {
    const items: T[] = [];
    while (!accept(end)) {
      if (peek() === undefined) throw syntaxError(undefined);
      items.push(item());
    }
    return items;
  }

  function selections(): Selection[] {
    return listUntil("}", selection).flat();
  }

  function selection(): Selection[] {
    if (accept("...")) {
      if (accept("on")) next();
      expect("{");
      return selections();
    }
    const alias = next();
    const name = accept(":") ? next() : alias;
    const args = accept("(") ? Object.fromEntries(listUntil(")", argument)) : {};
    return [{ name, alias, args, fields: accept("{") ? selections() : undefined }];
  }

  function argument(): [string, unknown] {
    const name = next();
    expect(":");
    return [name, value()];
  }

  const kind = peek() === "mutation" ? "mutation" : "query";
  // The name of the operation and the types of its variables: GitHub checks them, here the values are enough.
  while (peek() !== undefined && peek() !== "{") next();
  expect("{");
  return { kind, fields: selections() };
}

function tokenize(text: string): string[] {
  const tokens: string[] = [];
  token.lastIndex = 0;
  for (let match = token.exec(text); match; match = token.exec(text)) tokens.push(match[1] ?? "");
  return tokens;
}

function syntaxError(found: string | undefined): ApiError {
  return new ApiError(200, found === undefined ? "Unexpected end of document" : `Unexpected token "${found}"`);
}
