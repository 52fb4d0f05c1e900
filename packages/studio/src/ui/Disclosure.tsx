import { ChevronRight } from "lucide-react";

/** The arrow of something that opens. */
export function Chevron({ open }: { open: boolean }) {
  return <ChevronRight size={14} aria-hidden className={`shrink-0 text-quiet transition-transform duration-100 ${open ? "rotate-90" : ""}`} />;
}
