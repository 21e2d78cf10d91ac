// Where each line lies: folds, wrapped lines and a height beyond what browsers allow, all reduced to rows of one height.

export const ROW = 20;
export const HEAD = 30;
const END = 10; // under the last line
const TALLEST = 15_000_000; // Firefox ends near 17.9 million pixels
export const LONGEST = 10_000; // characters of an unwrapped line that are drawn; wrapping shows all of them

export class Layout {
  constructor(lines) {
    this.lines = lines;
    this.columns = 0; // 0: lines are not wrapped
    this.before = new Uint32Array(0); // rows before each line, wrapped
    this.known = 0;
  }

  wrapAt(columns) {
    this.columns = columns;
    this.known = 0;
  }

  /** Learn of new lines, and of a last line that has grown. */
  update() {
    if (this.columns) this.#count();
    let top = 0;
    for (const section of this.lines.sections) {
      section.top = top;
      section.rows = section.folded ? 0 : this.#rowsBefore(section.to) - this.#rowsBefore(section.from);
      top += HEAD + section.rows * ROW;
    }
    this.height = top + (top ? END : 0);
  }

  #count() {
    const { length, widths } = this.lines;
    if (this.before.length < length + 1) {
      const larger = new Uint32Array(Math.max(1024, 2 * length));
      larger.set(this.before);
      this.before = larger;
    }
    for (let line = Math.max(0, this.known - 1); line < length; line++)
      this.before[line + 1] = this.before[line] + Math.max(1, Math.ceil(widths.get(line) / this.columns));
    this.known = length;
  }

  #rowsBefore(line) { return this.columns ? this.before[line] : line; }

  /** What is drawn from `top` down to `bottom`: heads of sections, and rows of lines. */
  *visible(top, bottom) {
    for (const section of this.lines.sections) {
      const end = section.top + HEAD + section.rows * ROW;
      if (end <= top) continue;
      if (section.top >= bottom) return;
      if (section.top + HEAD > top) yield { key: `s${section.from}`, top: section.top, section };
      if (!section.rows) continue;
      const first = Math.max(0, Math.floor((top - section.top - HEAD) / ROW));
      const last = Math.min(section.rows, Math.ceil((bottom - section.top - HEAD) / ROW));
      const base = this.#rowsBefore(section.from);
      let line = this.#lineOf(base + first, section);
      for (let row = first; row < last; row++) {
        while (this.#rowsBefore(line + 1) <= base + row) line++;
        const part = base + row - this.#rowsBefore(line);
        yield { key: `${line}.${part}`, top: section.top + HEAD + row * ROW, line, part };
      }
    }
  }

  #lineOf(row, section) {
    if (!this.columns) return row;
    let low = section.from, high = section.to - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.before[middle] <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  topOf(line) {
    const section = this.lines.sectionOf(line);
    return section.top + HEAD + (this.#rowsBefore(line) - this.#rowsBefore(section.from)) * ROW;
  }

  /** Browsers limit how tall an element may be: beyond that, a pixel of the scroll bar is more than one of the log. */
  get drawn() { return Math.min(this.height, TALLEST); }
  scale(view) { return this.height <= TALLEST ? 1 : (this.height - view) / (TALLEST - view); }
}
