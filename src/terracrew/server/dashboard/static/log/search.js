// Search in the log: a slice of lines at a time, so that a million of them do not stop the page.

const SLICE_MS = 8;

export class Search {
  constructor(lines, onchange) {
    this.lines = lines;
    this.onchange = onchange;
    this.clear();
  }

  clear() {
    this.needle = "";
    this.hits = []; // lines
    this.at = -1;
    this.next = 0;
  }

  /** Look for this from now on, in what is there and in what comes. */
  start(needle) {
    this.clear();
    this.needle = needle.toLowerCase();
    this.more();
  }

  more() {
    if (!this.needle || this.isBusy) return this.onchange();
    this.isBusy = true;
    const until = performance.now() + SLICE_MS;
    // The last line may still grow: it is looked at again.
    const end = this.lines.isOpen ? this.lines.length - 1 : this.lines.length;
    while (this.next < end && performance.now() < until)
      for (const stop = Math.min(end, this.next + 500); this.next < stop; this.next++)
        if (this.lines.plain(this.next).toLowerCase().includes(this.needle)) this.hits.push(this.next);
    this.isBusy = false;
    this.onchange();
    if (this.next < end) setTimeout(() => this.more());
  }

  get isDone() { return this.next >= this.lines.length - 1; }

  find(text) {
    const found = [], low = text.toLowerCase();
    if (low.length !== text.length) return found; // a letter whose small form is longer: places would be off
    for (let at = low.indexOf(this.needle); at >= 0; at = low.indexOf(this.needle, at + this.needle.length))
      found.push([at, at + this.needle.length]);
    return found;
  }
}
