// Calls of the server's API, and the errors that its answers become.

import { signals } from "./time.js";

/** The server carries out no call for longer than 25 s. */
const CALL_MS = 60_000;

/** An error with a `code` such as `messaging/permission-blocked`, and an answer's HTTP `status`, else 0. */
export class MessagingError extends Error {
  constructor(code, message, answer = {}) {
    super(`${message} (messaging/${code})`);
    this.name = "MessagingError";
    this.code = `messaging/${code}`;
    this.status = answer.status ?? 0;
    this.error = answer.error ?? {};
    this.isForeign = answer.isForeign ?? false;
  }
  /** Whether a later try can succeed: unless the server refuses what the call asks for. What a machine on the
   * way says is not the server's word. A server that does not take the device, the credential or the project
   * (401, 403, 404) proves no end: it may be another server, or not know the project yet. */
  get isTemporary() {
    if (this.isEnded) return false;
    return this.isForeign || this.isUnknown || ![400, 409, 413, 415].includes(this.status);
  }
  /** Whether the server proves that it has ended the registration. */
  get isEnded() {
    return this.status === 404 && this.details.some(({ errorCode }) => errorCode === "UNREGISTERED");
  }
  /** Whether the server says that it has never made the registration. It may be another server. */
  get isUnknown() {
    const isOfName = ({ fieldViolations = [] }) => fieldViolations.some(({ field }) => field === "name");
    return this.status === 400 && this.details.some(isOfName);
  }
  get details() {
    return Array.isArray(this.error.details) ? this.error.details : [];
  }
}

export async function call(messaging, method, path, options = {}) {
  const { body = undefined, headers = {}, code = "request-failed" } = options;
  let response, answer;
  const json = body === undefined ? {} : { "content-type": "application/json" };
  try {
    response = await fetch(`${messaging.base}${path}`, {
      method, headers: { accept: "application/json", ...json, ...headers }, cache: "no-store",
      redirect: "error", credentials: "omit", body: body === undefined ? undefined : JSON.stringify(body),
      signal: signals.timeout(CALL_MS),
    });
    answer = await response.json();
  } catch (error) {
    throw new MessagingError(code, error.message, { status: response?.status, isForeign: true });
  }
  if (response.ok && isObject(answer) && !answer.error) return answer;
  throw refused(code, response.status, answer);
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

/** The error of an answer. A body without the API's error comes from a machine on the way, and so does an
 * error with the status of success. */
export function refused(code, status, answer) {
  const isForeign = !isObject(answer?.error) || status < 300;
  const error = isForeign ? undefined : answer.error;
  return new MessagingError(code, error?.message ?? `HTTP ${status}`, { status, error, isForeign });
}
export const bearer = (device) => ({ authorization: `Bearer ${device.credential}` });
