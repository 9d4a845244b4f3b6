import { describe, expect, test } from "vitest";
import { choicesOf, type JsonSchema, parametersOf, typeOfValue, typesOf } from "#domain/json-schema.ts";

describe("parameters of a schema", () => {
  test("the parameters of a schema are its properties; those with a default are optional", () => {
    const json: JsonSchema = {
      type: "object",
      properties: { path: { type: "string" }, limit: { type: "integer", default: 5 }, all: { type: "boolean" } },
      required: ["path", "limit"],
    };

    expect(parametersOf(json)).toEqual([
      { name: "path", schema: { type: "string" }, required: true },
      { name: "limit", schema: { type: "integer", default: 5 }, required: false },
      { name: "all", schema: { type: "boolean" }, required: false },
    ]);
    expect(parametersOf({ type: "string" })).toEqual([]);
  });

  const parameter = (property: JsonSchema, definitions = {}) => {
    const { schema = {} } = parametersOf({ properties: { a: property }, definitions } as JsonSchema)[0] ?? {};
    const members: Record<string, unknown> = {};
    for (const name in schema) members[name] = schema[name];
    return members;
  };

  test.each<[string, JsonSchema, object, object]>([
    ["a reference", { $ref: "#/definitions/x" }, { x: { type: "string" } }, { type: "string" }],
    [
      "what is written beside a reference, which wins",
      { $ref: "#/definitions/x", description: "b" },
      { x: { type: "string", description: "a" } },
      { type: "string", description: "b" },
    ],
    ["escaped names", { $ref: "#/definitions/a~1b~0c" }, { "a/b~c": { type: "null" } }, { type: "null" }],
    [
      "a chain of references",
      { $ref: "#/definitions/x" },
      { x: { $ref: "#/definitions/y" }, y: { type: "null" } },
      { type: "null" },
    ],
    ["a single allOf", { allOf: [{ type: "string" }], title: "t" }, {}, { type: "string", title: "t" }],
    ["no allOf of several", { allOf: [{ type: "string" }, {}] }, {}, { allOf: [{ type: "string" }, {}] }],
    ["no reference to another document", { $ref: "other.json#/x", title: "t" }, {}, { title: "t" }],
    ["no reference to nothing", { $ref: "#/definitions/x" }, {}, {}],
    ["no reference to a prototype", { $ref: "#/definitions/toString" }, {}, {}],
    ["no reference into a text", { $ref: "#/definitions/x/length" }, { x: "text" }, {}],
    ["no circular reference", { $ref: "#/definitions/x" }, { x: { $ref: "#/definitions/x" } }, {}],
  ])("resolve %s", (_, property, definitions, schema) => {
    expect(parameter(property, definitions)).toEqual(schema);
  });

  test("a large schema is not copied for each parameter that refers to it", () => {
    let copied = 0;
    const ownKeys = (schema: object) => {
      copied += 1;
      return Reflect.ownKeys(schema);
    };
    const x = new Proxy({ type: "string" }, { ownKeys });
    const properties = { a: { $ref: "#/definitions/x" }, b: { $ref: "#/definitions/x", default: 1 } };

    const found = parametersOf({ properties, definitions: { x } } as JsonSchema);

    expect(found.map(({ schema }) => typesOf(schema))).toEqual([["string"], ["string"]]);
    expect(copied).toBe(0);
  });

  test("the parameters of a referenced schema are found", () => {
    const json = { $ref: "#/definitions/x", definitions: { x: { properties: { a: true } } } } as unknown as JsonSchema;

    expect(parametersOf(json)).toEqual([{ name: "a", schema: {}, required: false }]);
  });
});

test.each<[JsonSchema, string[]]>([
  [{ type: "string" }, ["string"]],
  [{ type: ["string", "null"] }, ["string", "null"]],
  [{ const: 3 }, ["number"]],
  [{ const: null }, ["null"]],
  [{ enum: ["a", "b", null] }, ["string", "null"]],
  [{ anyOf: [{ type: "string" }, { type: "array" }, { const: "x" }] }, ["string", "array"]],
  [{ oneOf: [{ type: "string" }] }, ["string"]],
  [{}, []],
])("the types of %j are %j", (schema, types) => {
  expect(typesOf(schema)).toEqual(types);
});

test.each<[JsonSchema, unknown[] | undefined]>([
  [{ const: 3 }, [3]],
  [{ enum: ["a", null, "b"] }, ["a", "b"]],
  [{ anyOf: [{ const: "a" }, { enum: ["b", "c"] }, { type: "null" }] }, ["a", "b", "c"]],
  [{ oneOf: [{ const: "a" }] }, ["a"]],
  [{ anyOf: [{ const: "a" }, { type: "string" }] }, undefined],
  [{ anyOf: [{ type: "null" }] }, undefined],
  [{ type: "string" }, undefined],
])("the choices of %j are %j", (schema, choices) => {
  expect(choicesOf(schema)).toEqual(choices);
});

test("the type of a value tells null and lists from objects", () => {
  expect([null, [], {}, "", 1, true].map(typeOfValue)).toEqual([
    "null",
    "array",
    "object",
    "string",
    "number",
    "boolean",
  ]);
});
