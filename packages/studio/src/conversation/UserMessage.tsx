import type { UIMessage } from "ai";
import { Paperclip } from "lucide-react";

import { Visible } from "../ui/Visible";

export function UserMessage({ message }: { message: UIMessage }) {
  return (
    <div className="flex justify-end">
      <article className="min-w-0 max-w-[85%] rounded-2xl rounded-br-md bg-raised px-3.5 py-2" aria-label="You" data-testid="message-user" data-message={message.id}>
        {message.parts.map((part, at) => {
          if (part.type === "text") {
            return (
              <p key={at} className="speech whitespace-pre-wrap" dir="auto">
                {part.text}
              </p>
            );
          }
          return part.type === "file" ? (
            <p key={at} className="flex items-center gap-1.5 text-sm text-quiet">
              <Paperclip size={13} aria-hidden />
              <Visible text={part.filename ?? part.mediaType} />
            </p>
          ) : null;
        })}
      </article>
    </div>
  );
}
