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

  constructor(status: number, message: string, errors?: FieldError[]) {
    super(message);
    this.status = status;
    this.errors = errors;
  }
}

export function notFound(): ApiError {
  return new ApiError(404, "Not Found");
}

/** 422, with one entry for each thing that is wrong. */
export function validationFailed(...errors: FieldError[]): ApiError {
  return new ApiError(422, "Validation Failed", errors);
}
