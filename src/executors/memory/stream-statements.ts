import type { TransformPlugin } from "just-bash";

type Script = ReturnType<TransformPlugin["transform"]>["ast"];
type Statement = Script["statements"][number];
type CommandNode = Statement["pipelines"][number]["commands"][number];
type Group = Extract<CommandNode, { type: "Group" }>;

/** The files to which a script's output is redirected while it runs. */
export const outputFiles = { stdout: "/dev/.stdout", stderr: "/dev/.stderr" };

/**
 * just-bash returns a script's output only when the script has ended. This plugin redirects the output of each
 * statement, including those in loops and branches, so that it is available when the statement ends.
 */
export const streamStatements: TransformPlugin = {
  name: "stream-statements",
  transform({ ast }) {
    // The group around a statement is a separate pipeline, and an `exec` redirection would end with it.
    const text = JSON.stringify(ast);
    if (/PIPESTATUS|"value":"exec"/.test(text)) return { ast };
    return { ast: { ...ast, statements: ast.statements.map(stream) } };
  },
};

function stream(statement: Statement): Statement {
  const { pipelines, background, deferredError } = statement;
  if (background || deferredError) return statement;
  const [pipeline, ...more] = pipelines;
  const [command, ...piped] = pipeline?.commands ?? [];
  if (!pipeline || !command || command.type === "FunctionDef") return statement;
  if (more.length === 0 && piped.length === 0 && !pipeline.negated && !pipeline.timed) {
    const inner = streamInside(command);
    if (inner) return { ...statement, pipelines: [{ ...pipeline, commands: [inner] }] };
  }
  const group: Group = {
    type: "Group",
    body: [statement],
    redirections: [redirection(1, outputFiles.stdout), redirection(2, outputFiles.stderr)],
  };
  const outer: Statement["pipelines"][number] = { type: "Pipeline", commands: [group], negated: false };
  return { type: "Statement", pipelines: [outer], operators: [], background: false };
}

/** Returns a loop or a branch with its statements streamed separately; undefined for other commands. */
function streamInside(command: CommandNode): CommandNode | undefined {
  if (!("redirections" in command) || command.redirections.length > 0) return undefined;
  switch (command.type) {
    case "For":
    case "CStyleFor":
    case "While":
    case "Until":
    case "Group":
      return { ...command, body: command.body.map(stream) };
    case "If": {
      const clauses = command.clauses.map((clause) => ({ ...clause, body: clause.body.map(stream) }));
      return { ...command, clauses, elseBody: command.elseBody?.map(stream) ?? null };
    }
    case "Case":
      return { ...command, items: command.items.map((item) => ({ ...item, body: item.body.map(stream) })) };
    case "SimpleCommand":
    case "FunctionDef":
    case "Subshell":
    case "ArithmeticCommand":
    case "ConditionalCommand":
      return undefined;
  }
}

function redirection(fd: number, path: string): Group["redirections"][number] {
  return {
    type: "Redirection",
    fd,
    operator: ">>",
    target: { type: "Word", parts: [{ type: "Literal", value: path }] },
  };
}
