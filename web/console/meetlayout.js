// Where tiles go: pure functions of the size of the stage and of who is there.

/** Width by height of a tile. */
const RATIO = 16 / 9;
/** Tiles on one page of the grid. */
export const MOST_TILES = 25;
/** A narrower tile, in pixels, shows no one; the page holds fewer then. */
const LEAST_WIDTH = 150;
const GAP = 8;

/** Columns, rows and the size of a tile, so that `count` equal tiles fill the stage best. Narrow stages get squarer tiles. */
export function fitGrid(count, width, height, gap = GAP) {
  let best = { columns: 1, rows: count, width: 0, height: 0 };
  for (let columns = 1; columns <= count; columns++) {
    const rows = Math.ceil(count / columns);
    const cell = [(width - gap * (columns - 1)) / columns, (height - gap * (rows - 1)) / rows];
    const ratio = width < height ? Math.min(RATIO, Math.max(1, cell[0] / cell[1])) : RATIO;
    const tile = Math.floor(Math.min(cell[0], cell[1] * ratio));
    if (tile > best.width) best = { columns, rows, width: tile, height: Math.floor(tile / ratio) };
  }
  return best;
}

/** How many tiles a page of the grid holds. */
export function pageSize(width, height) {
  for (let count = MOST_TILES; count > 1; count--) if (fitGrid(count, width, height).width >= Math.min(LEAST_WIDTH, width / 2 - GAP)) return count;
  return 1;
}

/** What the stage shows: a large tile or none, and the tiles below it or in the grid. `ids` are tiles in their order; a page
 *  holds `size` of them in the grid and `strip` below a large one. */
export function arrange({ ids, screens, view, pinned, speaker, me, page, size, strip = 6 }) {
  const all = [...screens, ...ids];
  const others = ids.filter((id) => id !== me);
  // One's own screen is not shown large: it would show itself.
  const shared = screens.filter((id) => id !== `screen:${me}`).at(-1);
  const large = all.includes(pinned) ? pinned : shared ?? (view === "speaker" && all.length > 1 ? (others.includes(speaker) ? speaker : others[0]) : null);
  const rest = all.filter((id) => id !== large);
  const perPage = large ? strip : size;
  const pages = Math.max(1, Math.ceil(rest.length / perPage));
  const shown = Math.min(page, pages - 1);
  return { large, tiles: rest.slice(shown * perPage, (shown + 1) * perPage), page: shown, pages };
}

/** The best rendition that a tile of this width, in real pixels, can show. Renditions are 180, 360 and 720 lines high. */
export const renditionFor = (width) => (width <= 400 ? 0 : width <= 800 ? 1 : 2);
