import type { ButtonHTMLAttributes, Ref } from "react";

type Look = "filled" | "outline" | "quiet" | "danger";

const looks: Record<Look, string> = {
  filled: "bg-accent-fill text-on-accent hover:bg-accent-press disabled:bg-raised disabled:text-quiet",
  outline: "border border-line-strong/60 bg-surface text-text hover:bg-raised disabled:text-quiet",
  quiet: "text-quiet hover:bg-raised hover:text-text disabled:opacity-60",
  danger: "border border-failed/60 bg-surface text-failed hover:bg-failed-soft disabled:opacity-60",
};

type Props = ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look; small?: boolean; square?: boolean; ref?: Ref<HTMLButtonElement>; "data-testid"?: string };

export function Button({ look = "outline", small = false, square = false, className = "", type = "button", ...rest }: Props) {
  const size = square ? (small ? "size-7" : "size-8") : small ? "h-7 px-2.5 text-sm" : "h-8 px-3";
  return (
    <button
      type={type}
      className={`inline-flex shrink-0 items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-colors duration-100 ${looks[look]} ${size} ${className}`}
      {...rest}
    />
  );
}
