// Search in the lines of a long log that are not loaded: the server looks, a page at a time, and hits come with the lines around them.

const TYPING_MS = 200; // a word is looked for when it is typed, not each of its letters
const AGAIN_MS = 2000;
const PAGE_HITS = 200;
const MOST_HITS = 2000;
const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export class Earlier {
  /** `before` lines come before the first one that is loaded. Without any, nothing is asked. */
  constructor(url, before, onchange) {
    this.url = url;
    this.before = before;
    this.onchange = onchange;
    this.isOfOneAttempt = url.includes("attempt=");
    this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.asked?.abort();
    this.hits = [];
    this.isDone = true;
    this.isCut = false;
  }

  start(needle) {
    this.clear();
    if (!needle || !this.before) return;
    this.isDone = false;
    this.timer = setTimeout(() => this.#ask(needle, "", (this.asked = new AbortController())), TYPING_MS);
  }

  /** The number of a hit's line, as the page counts. */
  lineOf(hit) { return this.isOfOneAttempt ? hit.line : hit.run_line; }

  async #ask(needle, after, asked) {
    try {
      const query = new URLSearchParams({ text: needle, limit: PAGE_HITS, context: 4, ...(after && { after }) });
      const answer = await fetch(`${this.url}&${query}`, { signal: asked.signal });
      if (answer.status === 503) return void (this.timer = setTimeout(() => this.#ask(needle, after, asked), AGAIN_MS));
      if (!answer.ok) throw new Error(`${answer.status}`);
      const page = await answer.json();
      if (asked.signal.aborted) return;
      const found = page.hits.filter((hit) => this.lineOf(hit) <= this.before);
      this.hits.push(...found);
      this.isCut = this.hits.length >= MOST_HITS;
      const searched = this.isOfOneAttempt ? Number(page.after.split(".")[1]) : page.searched;
      this.isDone = page.is_end || this.isCut || searched >= this.before || found.length < page.hits.length;
      this.onchange(found.length);
      if (!this.isDone) this.#ask(needle, page.after, asked);
    } catch (problem) {
      if (problem.name === "AbortError") return;
      this.isDone = true;
      this.onchange(0);
    }
  }

  /** Show a hit with the lines around it, in a box of its own. */
  draw(box, hit, labels, all) {
    const line = this.lineOf(hit);
    const head = make("p", "head");
    head.append(make("b", "num", `Line ${number.format(line)}`), make("span", "faint", [labels[hit.step] ?? hit.step, clock.format(new Date(hit.time * 1000))].filter(Boolean).join(" · ")));
    if (all) {
      const link = make("a", "link", "Load all and go there");
      link.href = `${all}#L${line}`;
      head.append(link);
    }
    const rows = make("div", "around");
    const first = line - hit.before.length;
    hit.before.forEach((text, at) => rows.append(row(first + at, text)));
    rows.append(row(line, hit.text, hit.matches, hit.skipped));
    hit.after.forEach((text, at) => rows.append(row(line + 1 + at, text)));
    box.replaceChildren(head, rows);
    box.hidden = false;
    rows.querySelector("mark")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

function row(line, text, matches = null, skipped = 0) {
  const element = make("div", matches ? "l marked" : "l");
  const box = make("span", "x");
  element.append(make("span", "n", String(line)), box);
  const letters = Array.from(text); // matches count characters, not halves of them
  let at = 0;
  if (skipped) box.append("…");
  for (const [from, to] of matches ?? []) {
    box.append(letters.slice(at, from).join(""), make("mark", "", letters.slice(from, to).join("")));
    at = to;
  }
  box.append(letters.slice(at).join(""));
  return element;
}

function make(tag, names, text) {
  const element = document.createElement(tag);
  if (names) element.className = names;
  if (text) element.textContent = text; // never markup: what a job prints is only text
  return element;
}
