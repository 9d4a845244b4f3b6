const serialization = "40001";
const deadlock = "40P01";
const tooManyConnections = "53300";
const socketCodes = ["ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "ENOENT", "EHOSTUNREACH"];

/** The connection is gone: the server stopped, or the network between. */
export function isConnectionLost(error: unknown): boolean {
  if (error instanceof AggregateError) return error.errors.every(isConnectionLost);
  const code = codeOf(error);
  // 57P01 to 57P03: it is shutting down, was killed, or is starting.
  if (/^08/.test(code) || /^57P0[123]$/.test(code) || socketCodes.includes(code)) return true;
  return (
    error instanceof Error && /^Connection terminated|^Client has encountered a connection error/.test(error.message)
  );
}

/** Whether the same work may succeed a moment later, given that nothing of it stands. */
export function isTransient(error: unknown): boolean {
  return isConnectionLost(error) || [serialization, deadlock, tooManyConnections].includes(codeOf(error));
}

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
