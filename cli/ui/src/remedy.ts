/** The commands within what is to be typed. Pure. */

export interface Piece {
  text: string;
  /** Whether it is a command. */
  command: boolean;
}

/** Words of prose that follow a command, and are no arguments of one. */
const PROSE = new Set(["to", "says", "shows", "and", "or", "if", "for", "once", "then"]);

/** A command as it may be pasted: in one line, without what a terminal would act upon. */
function pasteable(text: string): string {
  return [...text].filter((letter) => letter >= " " && letter !== "\u007f").join("").trim();
}

/** Where the command that begins a text ends: before `;`, `,`, a bracket that it did not open or a word of prose, quotes aside. */
function end(text: string): number {
  const word = /'[^']*'|"[^"]*"|[^\s'"]+/g;
  let last = 0;
  let gap = 0;
  for (let found = word.exec(text); found; found = word.exec(text)) {
    const joined = found.index === gap && gap > 0;
    if (!joined && PROSE.has(found[0])) return last;
    const stop = (found[0].includes("(") ? /[;,:]$/ : /\)?[;,:]$|\)$/).exec(found[0]);
    const whole = found.index + found[0].length;
    if (stop) return whole - stop[0].length;
    last = whole;
    gap = whole;
  }
  return last;
}

/** Cuts a remedy into its commands and the words around them. */
export function pieces(remedy: string): Piece[] {
  const all: Piece[] = [];
  let rest = remedy;
  for (;;) {
    const at = rest.search(/\bkubectl /);
    if (at < 0) break;
    if (at > 0) all.push({ text: rest.slice(0, at), command: false });
    const length = end(rest.slice(at));
    all.push({ text: pasteable(rest.slice(at, at + length)), command: true });
    rest = rest.slice(at + length);
  }
  if (rest !== "") all.push({ text: rest, command: false });
  return all;
}
