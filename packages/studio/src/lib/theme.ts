import { useEffect } from "react";

import { readStored, useStored } from "./stored";

const KEY = "helix.theme";

export type Theme = "system" | "light" | "dark";

const themeOf = (value: string): Theme => (value === "light" || value === "dark" ? value : "system");

export function applyTheme(theme: Theme = themeOf(readStored(KEY))) {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
}

export function useTheme(): [Theme, (theme: Theme) => void] {
  const [value, set] = useStored(KEY);
  const theme = themeOf(value);
  useEffect(() => applyTheme(theme), [theme]);
  return [theme, (next) => set(next === "system" ? "" : next)];
}
