import { type FormEvent, useId, useMemo, useState } from "react";

import { useTool } from "../api/queries";
import type { PendingCall } from "../api/types";
import { useNow } from "../lib/now";
import { callKey, globalKey, isExpired } from "../lib/pending";
import { type Field, type Values, WHOLE, formFor, initialValues, mayBeEmpty, readForm } from "../lib/schema";
import { useKept } from "../lib/stored";
import { Button } from "../ui/Button";
import { StateIcon } from "../ui/State";
import { Visible } from "../ui/Visible";
import { AskedBy, useAnswering } from "./ApprovalCard";
import { Arguments } from "./Arguments";
import { useAsker } from "./Asker";

const control = "mt-1 block w-full rounded-md border bg-surface px-2.5 text-base text-text";

type ControlProps = { field: Field; value: string | boolean; error?: string; onChange(value: string | boolean): void; disabled: boolean };

function Control({ field, value, error, onChange, disabled }: ControlProps) {
  const id = useId();
  const text = String(value);
  const isNeeded = field.required && !mayBeEmpty(field);
  const edge = error ? "border-failed" : "border-line-strong";
  const shared = {
    id,
    name: field.name || "result",
    disabled,
    "aria-invalid": error ? true : undefined,
    "aria-describedby": `${id}-help`,
    "aria-required": isNeeded || undefined,
    onChange: (event: { target: { value: string } }) => onChange(event.target.value),
  };
  const isLong = field.kind === "long-text" || field.kind === "lines" || field.kind === "json";
  const label = (
    <>
      <Visible text={field.label} />
      {isNeeded && field.kind !== "boolean" && field.name !== WHOLE && <span className="text-quiet"> · required</span>}
    </>
  );
  return (
    <div>
      {field.kind === "boolean" ? (
        <label htmlFor={id} className="flex items-center gap-2 text-sm font-medium">
          <input type="checkbox" {...shared} className="size-4 accent-accent-fill" checked={value === true} onChange={(event) => onChange(event.target.checked)} />
          {label}
        </label>
      ) : (
        <label htmlFor={id} className="block text-sm font-medium">
          {label}
        </label>
      )}
      {field.kind === "choice" && (
        <select {...shared} className={`${control} h-8 ${edge}`} value={text}>
          <option value="">{field.required ? "Choose…" : typeof field.choices?.[0] === "boolean" ? "Not given" : "None"}</option>
          {field.choices?.map((one) => {
            const written = typeof one === "string" ? one : JSON.stringify(one);
            return (
              <option key={written} value={written}>
                {one === true ? "Yes" : one === false ? "No" : written}
              </option>
            );
          })}
        </select>
      )}
      {isLong && (
        <textarea {...shared} rows={field.kind === "json" ? 4 : 3} spellCheck={field.kind !== "json"} placeholder={field.kind === "json" ? '{ "name": "value" }' : undefined} className={`${control} py-1.5 ${field.kind === "json" ? "font-mono text-code!" : ""} ${edge}`} value={text} />
      )}
      {(field.kind === "text" || field.kind === "number") && (
        <input {...shared} type={field.schema.format === "date" ? "date" : field.schema.format === "email" ? "email" : "text"} inputMode={field.kind === "number" ? "decimal" : undefined} autoComplete="off" className={`${control} h-8 ${edge}`} value={text} />
      )}
      <p id={`${id}-help`} className="mt-1 text-xs text-quiet empty:hidden">
        {error ? (
          <span className="text-failed" role="alert">
            {field.name === WHOLE ? "The result" : <Visible text={field.label} />} {error}.
          </span>
        ) : (
          [field.help, field.kind === "lines" ? "One on each line." : undefined].filter(Boolean).join(" ")
        )}
      </p>
    </div>
  );
}

/** A call that this page answers: a form made from the schema of the result. */
export function ClientForm({ call, known, onAnswered }: { call: PendingCall; known?: { sessionId: string; agentType: string | undefined }; onAnswered(goesOn: boolean): void }) {
  const asker = useAsker(call, known);
  const tool = useTool(asker, call.toolName);
  const form = useMemo(() => formFor(tool?.outputSchema, call.input), [tool?.outputSchema, call.input]);
  const [kept, setKept] = useKept<Values | null>(`form ${globalKey(call)}`, null);
  const [tried, setTried] = useState(false);
  const { sending, error, answer } = useAnswering(call, onAnswered);
  const now = useNow(call.deadline === undefined ? null : 500);
  const expired = isExpired(call, now);
  const values = useMemo(() => ({ ...initialValues(form), ...kept }), [form, kept]);
  const read = readForm(form, values);
  const errors = tried && !read.ok ? read.errors : {};
  const input = (typeof call.input === "object" && call.input !== null ? call.input : {}) as Record<string, unknown>;
  const said = [input.title, input.prompt].filter((one): one is string => typeof one === "string");
  const others = Object.fromEntries(Object.entries(input).filter(([name]) => !["title", "prompt", ...(Array.isArray(input.fields) ? ["fields"] : [])].includes(name)));

  const send = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (read.ok) void answer({ result: read.value ?? null });
  };
  return (
    <form onSubmit={send} noValidate className="rounded-lg border border-waiting-line bg-waiting-soft" aria-label={`Answer ${call.toolName}`} data-testid="client-form" data-call={callKey(call)}>
      <header className="flex flex-wrap items-center gap-x-2 gap-y-1 px-3 pt-2.5">
        <StateIcon state="waiting" />
        <h2 className="min-w-0 font-semibold break-words">
          Answer <Visible text={tool?.title ?? call.toolName} />
        </h2>
        <span className="grow" />
        <AskedBy call={call} asker={asker} />
      </header>
      <div className="space-y-3 px-3 pt-1 pb-3">
        {tool?.description && <p className="text-sm break-words whitespace-pre-line text-quiet">{tool.description}</p>}
        {said.length > 0 && (
          <blockquote className="border-s-2 border-waiting-line ps-3 break-words">
            {said.map((text, at) => (
              <p key={at} className={at === 0 && said.length > 1 ? "font-medium" : ""}>
                <Visible text={text} keep={"\n"} className="whitespace-pre-line" />
              </p>
            ))}
          </blockquote>
        )}
        {Object.keys(others).length > 0 && (
          <div className="rounded-md border border-line bg-surface px-2.5 py-0.5">
            <Arguments input={others} />
          </div>
        )}
        <div className="space-y-3">
          {form.fields.map((field) => (
            <Control key={field.name} field={field} value={values[field.name] ?? ""} error={errors[field.name]} disabled={expired || sending} onChange={(value) => setKept({ ...kept, [field.name]: value })} />
          ))}
        </div>
        {expired ? (
          <p className="text-sm text-failed" data-testid="expired-note">
            The time to answer has passed. This can no longer be answered.
          </p>
        ) : (
          <div className="flex gap-2">
            <Button type="submit" look="filled" disabled={sending} data-testid="client-form-submit">
              Send
            </Button>
            <Button disabled={sending} data-testid="client-form-decline" onClick={() => void answer({ error: "The user declined to answer." })}>
              Decline
            </Button>
          </div>
        )}
        {error && (
          <p role="alert" className="text-sm break-words text-failed">
            {error}
          </p>
        )}
      </div>
    </form>
  );
}
