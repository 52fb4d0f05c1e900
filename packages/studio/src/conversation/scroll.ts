import { useCallback, useEffect, useRef, useState } from "react";

const NEAR = 60;

/** A box that stays at its end while it grows, unless its user has gone up. */
export function useEnd() {
  const box = useRef<HTMLDivElement>(null);
  const stays = useRef(true);
  const [atEnd, setAtEnd] = useState(true);

  const toEnd = useCallback((smooth = false) => {
    stays.current = true;
    setAtEnd(true);
    const found = box.current;
    found?.scrollTo({ top: found.scrollHeight, behavior: smooth ? "smooth" : "instant" });
  }, []);

  useEffect(() => {
    const found = box.current;
    const content = found?.firstElementChild;
    if (!found || !content) return;
    let top = found.scrollTop;
    const onScroll = () => {
      const near = found.scrollHeight - found.scrollTop - found.clientHeight < NEAR;
      // Only the user goes up.
      if (near) stays.current = true;
      else if (found.scrollTop < top) stays.current = false;
      top = found.scrollTop;
      setAtEnd(near || stays.current);
    };
    const grown = new ResizeObserver(() => {
      if (stays.current) found.scrollTo({ top: found.scrollHeight, behavior: "instant" });
    });
    grown.observe(content);
    grown.observe(found);
    found.addEventListener("scroll", onScroll, { passive: true });
    return () => {
      grown.disconnect();
      found.removeEventListener("scroll", onScroll);
    };
  }, []);

  return { box, atEnd, toEnd };
}
