/** How long ago something was, as kubectl says it. */

const UNITS: [string, number][] = [["d", 86_400], ["h", 3_600], ["m", 60], ["s", 1]];

/** `3d4h`, `12m`, `5s`: two units at most, the second only beside a small first. */
export function age(from: Date, now: number): string {
  const seconds = Math.max(0, Math.round((now - from.getTime()) / 1_000));
  const at = UNITS.findIndex(([, size]) => seconds >= size);
  const unit = UNITS[at];
  if (!unit) return "0s";
  const [name, size] = unit;
  const count = Math.floor(seconds / size);
  const below = UNITS[at + 1];
  const rest = below ? Math.floor((seconds % size) / below[1]) : 0;
  return below && count < 10 && rest > 0 ? `${count}${name}${rest}${below[0]}` : `${count}${name}`;
}

/** A time that the server sent; absent where it sent none, or none that can be read. */
export function parsed(text: string | undefined): Date | undefined {
  if (!text) return undefined;
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? undefined : time;
}

/** The time of day, with the date where it is not today's. */
export function clock(time: Date, now = new Date()): string {
  const day = time.toDateString() === now.toDateString();
  const parts: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false };
  return time.toLocaleString("en-GB", day ? parts : { ...parts, day: "numeric", month: "short" });
}
