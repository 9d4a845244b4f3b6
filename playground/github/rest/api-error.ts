export interface FieldError {
  resource: string;
  code: "missing" | "missing_field" | "invalid" | "unprocessable" | "custom";
  field?: string;
  message?: string;
}

/** A response that is not a success, with GitHub's message. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly errors: readonly (FieldError | string)[] | undefined;
  readonly headers: Record<string, string>;

  constructor(
    status: number,
    message: string,
    errors?: readonly (FieldError | string)[],
    headers: Record<string, string> = {},
  ) {
    super(message);
    this.status = status;
    this.errors = errors;
    this.headers = headers;
  }
}

export function notFound(): ApiError {
  return new ApiError(404, "Not Found");
}

/** Returns what was found. Throws a 404 for undefined. */
export function orNotFound<T>(found: T | undefined): T {
  if (found === undefined) throw notFound();
  return found;
}

/** A redirect to a new address: 301 for reads, 307 for writes. */
export function moved(method: string, location: string): ApiError {
  return new ApiError(method === "GET" ? 301 : 307, "Moved Permanently", undefined, { Location: location });
}

/** A 422 with one entry for each problem. */
export function validationFailed(...errors: FieldError[]): ApiError {
  return new ApiError(422, "Validation Failed", errors);
}
