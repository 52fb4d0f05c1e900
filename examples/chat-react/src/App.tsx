import type { HelixUIMessage } from '@helix-agents/ai-sdk';
import { useHelixChat, useResumableChat, type HelixChat } from '@helix-agents/ai-sdk/react';
import { useState, type FormEvent } from 'react';

// The session is in the address, so that a reload, or another tab, goes on where this one is.
const address = new URL(location.href);
const session = address.searchParams.get('session') ?? Math.random().toString(36).slice(2);
const agentType = address.searchParams.get('agent') ?? undefined;
address.searchParams.set('session', session);
history.replaceState(null, '', address);

export function App() {
  const chat = useHelixChat({ id: session, agentType });
  const { isLoading, error } = useResumableChat(chat.data, chat);
  const [text, setText] = useState('');
  const isBusy = chat.status === 'submitted' || chat.status === 'streaming';
  const failure = chat.error ?? (error as Error | undefined);

  const send = (event: FormEvent) => {
    event.preventDefault();
    if (!text.trim()) return;
    void chat.sendMessage({ text });
    setText('');
  };

  return (
    <main data-status={isLoading ? 'loading' : chat.status}>
      <header>
        <h1>Chat</h1>
        <a href={location.pathname + (agentType ? `?agent=${agentType}` : '')}>New chat</a>
      </header>
      <div className="scroll">
        <ol>
          {chat.messages.map((message) => (
            <li key={message.id} data-testid="message" data-role={message.role}>
              {message.parts.map((part, index) => (
                <Part key={index} part={part} chat={chat} />
              ))}
            </li>
          ))}
        </ol>
      </div>
      {failure && (
        <p role="alert">
          {failure.message} <button onClick={() => void chat.retry()}>Try again</button>
        </p>
      )}
      <form onSubmit={send}>
        <input
          data-testid="composer"
          aria-label="Message"
          placeholder="Say something"
          autoFocus
          disabled={isLoading}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        {isBusy ? (
          <button type="button" data-testid="stop" onClick={() => void chat.stop()}>
            Stop
          </button>
        ) : (
          <button data-testid="send" disabled={isLoading || !text.trim()}>
            Send
          </button>
        )}
      </form>
    </main>
  );
}

type MessagePart = HelixUIMessage['parts'][number];

function Part({ part, chat }: { part: MessagePart; chat: HelixChat }) {
  switch (part.type) {
    case 'text':
      return <p>{part.text}</p>;
    case 'reasoning':
      return <p className="reasoning">{part.text}</p>;
    case 'data-subagent':
      return (
        <p className="reasoning">
          {part.data.agentType}: {part.data.text}
        </p>
      );
    case 'dynamic-tool':
      return <ToolCard part={part} chat={chat} />;
    default:
      return null;
  }
}

function ToolCard({ part, chat }: { part: Extract<MessagePart, { type: 'dynamic-tool' }>; chat: HelixChat }) {
  return (
    <section className="tool" data-testid="tool-card" data-state={part.state}>
      <h2>{part.toolName}</h2>
      <pre>{JSON.stringify(part.input, null, 2)}</pre>
      {part.state === 'approval-requested' && <Approval id={part.approval.id} chat={chat} />}
      {part.state === 'input-available' && part.toolName === 'pick_color' && (
        <ColorForm
          prompt={(part.input as { prompt: string }).prompt}
          onPick={(color) =>
            void chat.addToolOutput({ tool: part.toolName, toolCallId: part.toolCallId, output: { color } })
          }
        />
      )}
      {part.state === 'output-available' && <pre>{JSON.stringify(part.output, null, 2)}</pre>}
      {part.state === 'output-error' && <p role="alert">{part.errorText}</p>}
      {part.state === 'output-denied' && <p>Not allowed.</p>}
    </section>
  );
}

function Approval({ id, chat }: { id: string; chat: HelixChat }) {
  const [reason, setReason] = useState('');
  return (
    <div className="row">
      <button data-testid="approve" onClick={() => void chat.approve(id)}>
        Approve
      </button>
      <input aria-label="Reason" placeholder="Why not?" value={reason} onChange={(event) => setReason(event.target.value)} />
      <button data-testid="deny" onClick={() => void chat.deny(id, reason || undefined)}>
        Deny
      </button>
    </div>
  );
}

function ColorForm({ prompt, onPick }: { prompt: string; onPick: (color: string) => void }) {
  const [color, setColor] = useState('');
  const pick = (event: FormEvent) => {
    event.preventDefault();
    onPick(color);
  };
  return (
    <form className="row" data-testid="color-form" onSubmit={pick}>
      <input aria-label={prompt} placeholder={prompt} required value={color} onChange={(event) => setColor(event.target.value)} />
      <button>Answer</button>
    </form>
  );
}
