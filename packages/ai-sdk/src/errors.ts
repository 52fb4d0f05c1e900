import type { ErrorBody, HelixDataTypes } from './wire.js';

/** A request that the server refused. The message is fit for the user; `detail` is for developers. */
export class HelixHttpError extends Error {
  override readonly name = 'HelixHttpError';

  constructor(
    message: string,
    /** For instance `NOT_FOUND` or `VALIDATION_ERROR`; `HTTP_502` where something else answered. */
    readonly code: string,
    readonly statusCode: number,
    readonly detail?: string,
  ) {
    super(message);
  }

  /** Whether the same request may succeed later. */
  get retryable(): boolean {
    return this.statusCode === 429 || this.statusCode >= 502;
  }

  static async fromResponse(response: Response): Promise<HelixHttpError> {
    const text = await response.text().catch(() => '');
    const body = parse(text);
    if (body) return new HelixHttpError(body.error, body.code, response.status, body.detail);
    const code = `HTTP_${response.status}`;
    return new HelixHttpError(`The server answered ${response.status}.`, code, response.status, text || undefined);
  }
}

function parse(text: string): ErrorBody | undefined {
  try {
    const body: unknown = JSON.parse(text);
    if (typeof body !== 'object' || body === null) return undefined;
    const { error, code } = body as Partial<ErrorBody>;
    return typeof error === 'string' && typeof code === 'string' ? (body as ErrorBody) : undefined;
  } catch {
    return undefined;
  }
}

/** A failure of the run itself, like an overloaded model, from the `data-error` part before an `error` chunk. */
export class HelixStreamError extends Error {
  override readonly name = 'HelixStreamError';

  constructor(
    message: string,
    readonly code: string,
    /** Whether the same message may succeed when it is sent again. */
    readonly retryable: boolean,
  ) {
    super(message);
  }

  static fromEvent(event: Partial<HelixDataTypes['error']>): HelixStreamError {
    return new HelixStreamError(event.errorText ?? 'The run failed.', event.code ?? 'UNKNOWN', event.recoverable === true);
  }
}
