import { type ComponentProps, type ReactElement, type ReactNode, isValidElement, memo } from "react";
import { type Components, Streamdown } from "streamdown";

import { textOf } from "../lib/json";
import { Copy } from "./Copy";

/** Addresses that a link may have. Anything else is shown as text. */
const SAFE = /^(https?:|mailto:)/i;

function plain(Tag: keyof React.JSX.IntrinsicElements) {
  return function Plain({ node: _node, className: _className, ...rest }: Record<string, unknown>) {
    const Element = Tag as "div";
    return <Element {...(rest as ComponentProps<"div">)} />;
  };
}

function textIn(node: ReactNode): string {
  if (typeof node === "string" || typeof node === "number") return textOf(String(node));
  if (Array.isArray(node)) return node.map(textIn).join("");
  return isValidElement(node) ? textIn((node as ReactElement<{ children?: ReactNode }>).props.children) : "";
}

function CodeBlock({ children }: { children?: ReactNode }) {
  const code = isValidElement(children) ? (children as ReactElement<{ className?: string }>) : null;
  const language = code?.props.className?.match(/language-(\S+)/)?.[1];
  const text = textIn(children).replace(/\n$/, "");
  return (
    <div className="overflow-hidden rounded-lg border border-line bg-sunken">
      <div className="flex h-8 items-center justify-between pr-1 pl-3 text-xs text-quiet">
        <span>{language ?? "text"}</span>
        <Copy text={() => text} label="Copy code" />
      </div>
      <pre className="overflow-x-auto px-3 pb-2.5 font-mono text-code" tabIndex={0}>
        <code>{text}</code>
      </pre>
    </div>
  );
}

const tags = ["h1", "h2", "h3", "h4", "h5", "h6", "p", "ul", "ol", "li", "strong", "em", "del", "blockquote", "hr", "thead", "tbody", "tr", "th", "td", "sup", "sub", "section"] as const;

const components = {
  ...Object.fromEntries(tags.map((tag) => [tag, plain(tag)])),
  code: plain("code"),
  pre: CodeBlock,
  table: ({ children }: { children?: ReactNode }) => (
    <div className="overflow-x-auto" tabIndex={0} role="group" aria-label="Table">
      <table>{children}</table>
    </div>
  ),
  a: ({ href, children }: { href?: string; children?: ReactNode }) =>
    href && SAFE.test(href) ? (
      <a href={href} title={href} target="_blank" rel="noopener noreferrer nofollow">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  // Nothing is loaded from elsewhere: an address in an image could tell others what was said here.
  img: ({ src, alt }: { src?: string; alt?: string }) => (
    <span className="text-quiet">
      [image: {alt || "without description"}
      {typeof src === "string" && SAFE.test(src) ? (
        <>
          {" "}
          <a href={src} title={src} target="_blank" rel="noopener noreferrer nofollow">
            open
          </a>
        </>
      ) : null}
      ]
    </span>
  ),
} as unknown as Components;

/** HTML is not parsed. One list for all renderings: another one would have each text parsed anew. */
const noPlugins: ComponentProps<typeof Streamdown>["rehypePlugins"] = [];

/** Markdown, also while it is still being written. HTML in it is shown as text. */
export const Markdown = memo(function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  return (
    <div className="prose" dir="auto">
      <Streamdown mode={live ? "streaming" : "static"} parseIncompleteMarkdown={live} rehypePlugins={noPlugins} components={components} controls={false} linkSafety={{ enabled: false }} className="contents">
        {text}
      </Streamdown>
    </div>
  );
});
