/** A page of a list, and whether there is more after it. */
export type Page<T> = { items: T[]; hasMore: boolean };

const MOST_PAGES = 50;

/** All of a list, page by page, up to so many. A page may be shorter than was asked for, and the list may change meanwhile. */
export async function allOf<T>(page: (offset: number) => Promise<Page<T>>, mostPages = MOST_PAGES): Promise<T[]> {
  const all: T[] = [];
  for (let count = 0; count < mostPages; count += 1) {
    const { items, hasMore } = await page(all.length);
    all.push(...items);
    if (!hasMore || !items.length) break;
  }
  return all;
}
