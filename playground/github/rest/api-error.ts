export interface FieldError {
  resource: string;
  code: "missing" | "missing_field" | "invalid" | "already_exists" | "unprocessable" | "custom";
  field?: string;
  message?: string;
}

/** An answer that is not a success, in the words GitHub uses. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly errors: FieldError[] | undefined;
  /** Where it has moved to. */
  readonly location: string | undefined;

  constructor(status: number, message: string, errors?: FieldError[], location?: string) {
    super(message);
    this.location = location;
    this.status = status;
    this.errors = errors;
  }
}

export function notFound(): ApiError {
  return new ApiError(404, "Not Found");
}

/** 301 for who reads, 307 for who writes, as GitHub sends those who come by an old name. */
export function moved(method: string, location: string): ApiError {
  return new ApiError(method === "GET" ? 301 : 307, "Moved Permanently", undefined, location);
}

/** 422, with one entry for each thing that is wrong. */
export function validationFailed(...errors: FieldError[]): ApiError {
  return new ApiError(422, "Validation Failed", errors);
}
