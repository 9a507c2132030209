/** Dark or light: as the system has it, unless the person chooses. */
import { useState } from "preact/hooks";

const THEMES = ["system", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];

const KEY = "causeway-theme";

function stored(): Theme {
  try {
    const kept = localStorage.getItem(KEY);
    return THEMES.find((one) => one === kept) ?? "system";
  } catch {
    return "system";
  }
}

function apply(theme: Theme): void {
  if (theme === "system") document.documentElement.removeAttribute("data-theme");
  else document.documentElement.setAttribute("data-theme", theme);
  window.dispatchEvent(new Event("themechange"));
}

// Before the first paint: the page does not flash in the other colours.
apply(stored());

export function ThemeSwitch() {
  const [theme, set] = useState<Theme>(stored);
  const choose = (chosen: Theme) => {
    apply(chosen);
    set(chosen);
    try {
      localStorage.setItem(KEY, chosen);
    } catch {
      // It holds for this page alone then.
    }
  };
  return (
    <label class="theme">
      <span class="hidden">Colours</span>
      <select value={theme} onChange={(event) => choose(event.currentTarget.value as Theme)}>
        {THEMES.map((one) => <option value={one}>{one[0]?.toUpperCase() + one.slice(1)}</option>)}
      </select>
    </label>
  );
}
