import { Monitor, Moon, Sun } from "lucide-react";

import { type Theme, useTheme } from "../lib/theme";
import { Button } from "../ui/Button";
import { Tip } from "../ui/Tip";

const next: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const icons = { system: Monitor, light: Sun, dark: Moon };
const words: Record<Theme, string> = { system: "as the system", light: "light", dark: "dark" };

export function ThemeToggle() {
  const [theme, set] = useTheme();
  const Icon = icons[theme];
  return (
    <Tip text={`Colours: ${words[theme]}`} side="top">
      <Button look="quiet" square data-testid="theme-toggle" aria-label={`Colours: ${words[theme]}. Change to ${words[next[theme]]}`} data-theme-choice={theme} onClick={() => set(next[theme])}>
        <Icon size={16} aria-hidden />
      </Button>
    </Tip>
  );
}
