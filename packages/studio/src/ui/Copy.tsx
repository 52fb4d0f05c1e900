import { Check, Copy as CopyIcon } from "lucide-react";
import { useEffect, useState } from "react";

import { Button } from "./Button";

/** Copies a text, and says so. */
export function Copy({ text, label, className = "" }: { text: () => string; label: string; className?: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 1500);
    return () => clearTimeout(timer);
  }, [done]);
  const Icon = done ? Check : CopyIcon;
  return (
    <Button look="quiet" square small className={`size-6! ${className}`} aria-label={done ? "Copied" : label} onClick={() => void navigator.clipboard?.writeText(text()).then(() => setDone(true))}>
      <Icon size={13} aria-hidden />
    </Button>
  );
}
