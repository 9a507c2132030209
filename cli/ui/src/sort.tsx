/** Tables whose columns sort them; the order is a parameter of the page's place. */
import type { ComponentChildren } from "preact";
import { setParams } from "./route";

export interface Column<T> {
  id: string;
  title: string;
  /** What it is sorted by; a column without it does not sort. */
  by?: (one: T) => string | number;
  numeric?: boolean;
}

export interface Order {
  id: string;
  descending: boolean;
}

/** `name` or `-name`. */
export function orderOf(text: string | null, otherwise: string): Order {
  const order = text || otherwise;
  return order.startsWith("-") ? { id: order.slice(1), descending: true } : { id: order, descending: false };
}

const COLLATOR = new Intl.Collator("en", { numeric: true });

export function sorted<T>(all: T[], columns: Column<T>[], { id, descending }: Order, tie: (one: T) => string): T[] {
  const by = columns.find((one) => one.id === id)?.by;
  if (!by) return all;
  const sign = descending ? -1 : 1;
  const keyed = all.map((one) => ({ one, key: by(one), tie: tie(one) }));
  keyed.sort((a, b) => {
    const order = typeof a.key === "number" && typeof b.key === "number" ? a.key - b.key : COLLATOR.compare(`${a.key}`, `${b.key}`);
    return sign * order || COLLATOR.compare(a.tie, b.tie);
  });
  return keyed.map(({ one }) => one);
}

/** @param param the parameter that holds the order */
export function Heads<T>({ columns, order, param }: { columns: Column<T>[]; order: Order; param: string }) {
  const sort = (id: string): void => {
    const descending = order.id === id && !order.descending;
    setParams({ [param]: descending ? `-${id}` : id });
  };
  return (
    <thead>
      <tr>
        {columns.map(({ id, title, by, numeric }) => {
          const is = order.id === id;
          const direction = order.descending ? "descending" : "ascending";
          return (
            <th scope="col" key={id} class={numeric ? "number" : undefined} aria-sort={is ? direction : undefined}>
              {by ? (
                <button type="button" class="sort" onClick={() => sort(id)}>
                  {title}
                  <span class="arrow" aria-hidden="true">{is ? (order.descending ? "\u2193" : "\u2191") : ""}</span>
                </button>
              ) : title}
            </th>
          );
        })}
      </tr>
    </thead>
  );
}

/** A table that scrolls within itself where the window is too narrow. */
export function Scroll({ label, children }: { label: string; children: ComponentChildren }) {
  return <div class="scroll" role="group" aria-label={label} tabIndex={0}>{children}</div>;
}
