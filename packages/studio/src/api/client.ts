import { watchedFetch } from "./connection";

/** An answer of the server that is an error. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly code?: string,
    readonly detail?: string,
  ) {
    super(message);
  }
}

async function answerOf<T>(answer: Response): Promise<T> {
  const body = await answer.json().catch(() => null);
  if (answer.ok) return body as T;
  throw new ApiError(body?.error ?? `The server answered with status ${answer.status}.`, answer.status, body?.code, body?.detail);
}

export async function get<T>(path: string): Promise<T> {
  return answerOf<T>(await watchedFetch(path, { headers: { accept: "application/json" } }));
}

export async function post<T>(path: string, body: unknown): Promise<T> {
  return answerOf<T>(
    await watchedFetch(path, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body),
    }),
  );
}

/** The sentence for a user, with the detail for a developer where there is one. */
export function sentence(error: unknown): string {
  if (error instanceof TypeError || (error instanceof ApiError && error.status >= 502)) return "The server did not answer. Try again once it is back.";
  if (error instanceof ApiError) return [error.message, error.detail].filter(Boolean).join(" ");
  return error instanceof Error ? error.message : String(error);
}
