/** What works without React. */
export { createHelixSendAutomaticallyWhen, pendingOf, type SendAutomaticallyWhen } from './answers.js';
export { HelixHttpError, HelixStreamError } from './errors.js';
export { prepareHelixChatRequest, prepareHelixReconnectRequest, type PrepareHelixRequestOptions } from './prepare.js';
export { createHelixChatTransport, HelixChatTransport, type HelixChatTransportOptions } from './transport.js';
export type * from './wire.js';
