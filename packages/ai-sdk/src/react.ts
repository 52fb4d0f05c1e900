/** The hooks. */
export { createHelixSendAutomaticallyWhen, type SendAutomaticallyWhen } from './answers.js';
export { useDataParts } from './react/data.js';
export * from './react/resync.js';
export { useHelixChat, type HelixChat, type UseHelixChatOptions } from './react/use-helix-chat.js';
export {
  useResumeClientTools,
  type ClientToolContext,
  type ClientToolHandler,
  type ClientToolHandlers,
  type OnClientToolError,
  type UseResumeClientToolsOptions,
} from './react/use-resume-client-tools.js';
export { useHelixSendAutomaticallyWhen } from './react/use-send-automatically-when.js';
