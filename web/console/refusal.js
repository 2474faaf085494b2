// Why a request failed.

/** `final` when a retry cannot succeed. */
export class Refusal extends Error {
  constructor(code, message, final = false) {
    super(message || code);
    Object.assign(this, { code, final });
  }
}
