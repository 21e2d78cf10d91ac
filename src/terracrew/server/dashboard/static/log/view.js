// The part of the log that can be seen, drawn; only those rows exist in the document.
import { classes, runs } from "./ansi.js";
import { HEAD, LONGEST, Layout, ROW } from "./layout.js";

const AROUND = 8 * ROW; // drawn beyond the edges, so that scrolling shows no gap
const MENU = 60; // so much of the window is covered by the menu of a narrow page
const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3 });

export class View {
  constructor(scroller, lines, labels) {
    this.scroller = scroller;
    this.labels = labels; // step → its name
    this.lines = lines;
    this.layout = new Layout(lines);
    this.drawn = new Map();
    this.isFollowing = false;
    this.showsTimes = false;
    this.marked = -1;
    this.find = null; // (plain text) → [[from, to], …]
    this.onfollow = () => {};
    this.spacer = make("div", "spacer");
    this.rows = make("div", "rows");
    this.stuck = make("div", "fold stuck");
    this.stuck.hidden = true;
    scroller.append(this.stuck, this.spacer, this.rows);
    scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    scroller.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    scroller.addEventListener("click", (event) => this.#click(event));
    scroller.addEventListener("copy", (event) => this.#copy(event));
    new ResizeObserver(() => this.#resized()).observe(scroller);
    this.layout.update();
  }

  get height() { return this.scroller.clientHeight; }
  get top() { return this.scroller.scrollTop * this.layout.scale(this.height); }
  get isAtEnd() { return this.scroller.scrollTop + this.height >= this.scroller.scrollHeight - ROW; }

  /** New lines, a fold, a wrap: measure again and draw. */
  update() {
    this.layout.update();
    this.spacer.style.height = `${this.layout.drawn}px`;
    this.scroller.style.setProperty("--digits", Math.max(3, String(this.lines.before + this.lines.length).length));
    this.scroller.style.setProperty("--content", `${Math.min(this.layout.height, 9999)}px`);
    if (this.isFollowing) this.scroller.scrollTop = this.scroller.scrollHeight;
    this.draw();
  }

  redraw() {
    this.drawn.clear();
    this.rows.replaceChildren();
    this.draw();
  }

  draw() {
    const top = this.top, shift = this.scroller.scrollTop - top, seen = new Set();
    let previous = null;
    for (const row of this.layout.visible(top - AROUND, top + this.height + AROUND)) {
      const version = row.section ? `${row.section.to}.${row.section.folded}` : this.lines.texts[row.line].length;
      let element = this.drawn.get(row.key);
      if (!element || element.version !== version) {
        const fresh = row.section ? this.#head(row.section) : this.#line(row);
        fresh.version = version;
        element?.replaceWith(fresh);
        this.drawn.set(row.key, (element = fresh));
      }
      element.style.transform = `translateY(${row.top + shift}px)`;
      if (!element.isConnected || element.previousSibling !== previous) previous ? previous.after(element) : this.rows.prepend(element);
      previous = element;
      seen.add(row.key);
    }
    for (const [key, element] of this.drawn) if (!seen.has(key)) element.remove(), this.drawn.delete(key);
    this.#stick(top);
  }

  /** The section that is being read keeps its head in sight. */
  #stick(top) {
    const section = this.lines.sections.findLast((each) => each.top <= top && each.rows);
    const isOver = section !== undefined && section.top < top;
    this.stuck.hidden = !isOver;
    if (isOver) this.stuck.replaceChildren(...this.#head(section).childNodes), (this.stuck.section = section);
  }

  #head(section) {
    const head = make("div", "fold");
    const button = make("button", "", section.label || (this.labels[section.step] ?? section.step));
    button.type = "button";
    button.setAttribute("aria-expanded", String(!section.folded));
    head.section = section;
    const count = section.to - section.from;
    head.append(button, make("span", "faint num", count === 1 ? `line ${number.format(this.lines.number(section.from))}` : `lines ${number.format(this.lines.number(section.from))}–${number.format(this.lines.before + section.to)}`));
    if (section.attempt > 1 && !section.label) head.append(make("span", "faint num", `attempt ${section.attempt}`));
    return head;
  }

  #line({ line, part }) {
    const element = make("div", this.lines.isOurs.get(line) ? "l ours" : "l");
    element.line = line;
    element.part = part;
    if (line === this.marked) element.classList.add("marked");
    const label = make("a", "n", part ? "" : String(this.lines.number(line)));
    if (!part) label.href = `#L${this.lines.number(line)}`, label.tabIndex = -1;
    element.append(label);
    if (this.showsTimes) element.append(make("span", "t", part ? "" : clock.format(this.lines.times.get(line))));
    element.append(this.#text(line, part));
    return element;
  }

  #text(line, part) {
    const box = make("span", "x");
    const all = runs(this.lines.texts[line], this.lines.styles.get(line));
    const { columns } = this.layout;
    const from = columns ? part * columns : 0, to = columns ? from + columns : LONGEST;
    const hits = this.find ? this.find(all.map(([text]) => text).join("")) : [];
    let at = 0;
    for (const [text, style] of all) {
      const names = classes(style);
      for (const [start, end, isHit] of cuts(Math.max(at, from), Math.min(at + text.length, to), hits)) {
        const piece = text.slice(start - at, end - at);
        if (isHit) box.append(make("mark", names, piece));
        else box.append(names ? make("span", names, piece) : piece);
      }
      at += text.length;
    }
    if (!columns && at > LONGEST) box.append(make("span", "more", `… ${number.format(at - LONGEST)} more characters: Wrap shows them`));
    return box;
  }

  show(line) {
    const section = this.lines.sectionOf(line);
    if (!section) return;
    section.folded = false;
    section.chosen = true; // the next step does not fold it again
    this.follow(false);
    this.marked = line;
    this.update();
    this.#to(this.layout.topOf(line) - this.height / 3);
    this.redraw();
    this.#scrollPage(line);
  }

  /** The log's own box may be outside of the window: then the page scrolls to the line, too. */
  #scrollPage(line) {
    const { top, bottom } = this.drawn.get(`${line}.0`)?.getBoundingClientRect() ?? {};
    if (top < MENU || bottom > innerHeight) scrollBy({ top: top - innerHeight / 3 });
  }

  toEnd() {
    this.update();
    this.#to(this.layout.height);
    this.draw();
  }

  /** No line is marked any more. */
  unmark() {
    this.marked = -1;
    this.redraw();
  }

  showSection(step) {
    const section = this.lines.sections.findLast((each) => each.step === step);
    if (!section) return;
    section.folded = false;
    this.follow(false);
    this.update();
    this.#to(section.top);
  }

  follow(on) {
    if (this.isFollowing === on) return;
    this.isFollowing = on;
    this.onfollow(on);
    if (on) this.update();
  }

  wrap(on) {
    this.isWrapped = on;
    this.scroller.classList.toggle("wrapped", on);
    const seen = this.top > 0 ? [...this.layout.visible(this.top + HEAD, this.top + 4 * HEAD)] : [];
    const first = seen.find((row) => row.line !== undefined)?.line;
    this.layout.wrapAt(on ? this.#columns() : 0);
    this.update();
    if (first !== undefined && !this.isFollowing) this.#to(this.layout.topOf(first) - HEAD);
    this.redraw();
  }

  times(on) {
    this.showsTimes = on;
    if (this.isWrapped) this.wrap(true);
    else this.redraw();
  }

  /** How many characters fit beside the line numbers. */
  #columns() {
    const probe = this.#line({ line: 0, part: 0 });
    const ruler = make("span", "", "0".repeat(100));
    probe.lastChild.replaceChildren(ruler);
    this.rows.append(probe);
    const wide = ruler.getBoundingClientRect().width / 100, room = this.scroller.clientWidth - probe.lastChild.offsetLeft - 16;
    probe.remove();
    return Math.max(20, Math.floor(room / wide));
  }

  #to(top) { this.scroller.scrollTop = Math.max(0, top) / this.layout.scale(this.height); }

  #resized() {
    if (this.isWrapped && this.lines.length) this.layout.wrapAt(this.#columns()), this.redraw();
    this.update();
  }

  #scrolled() {
    const top = this.scroller.scrollTop;
    if (top < this.before) this.follow(false);
    else if (this.isAtEnd && this.isLive) this.follow(true);
    this.before = top;
    this.draw();
  }

  #wheel(event) {
    const scale = this.layout.scale(this.height);
    if (scale === 1 || event.ctrlKey || !event.deltaY) return;
    event.preventDefault();
    this.#to(this.top + event.deltaY * (event.deltaMode === 1 ? ROW : 1));
  }

  #click(event) {
    const head = event.target.closest(".fold");
    if (head) {
      const { section } = head;
      section.folded = !section.folded;
      section.chosen = true;
      if (section.folded && section.top < this.top) this.#to(section.top);
      this.update();
      if (!head.isConnected || head === this.stuck) this.drawn.get(`s${section.from}`)?.querySelector("button").focus({ preventScroll: true });
      return;
    }
    const label = event.target.closest("a.n[href]");
    if (!label) return;
    event.preventDefault();
    this.marked = label.parentElement.line;
    history.replaceState(null, "", label.hash);
    this.redraw();
  }

  /** A wrapped line is one line on the clipboard; numbers and times are not part of it. */
  #copy(event) {
    const selection = getSelection();
    const picked = [...this.rows.children].filter((row) => row.line !== undefined && selection.containsNode(row, true));
    if (picked.length < 2) return;
    const first = selection.getRangeAt(0), out = [];
    for (const row of picked) {
      const range = document.createRange();
      range.selectNodeContents(row.querySelector(".x"));
      if (first.compareBoundaryPoints(Range.START_TO_START, range) > 0) range.setStart(first.startContainer, first.startOffset);
      if (first.compareBoundaryPoints(Range.END_TO_END, range) < 0) range.setEnd(first.endContainer, first.endOffset);
      if (row.part && out.length) out[out.length - 1] += range.toString();
      else out.push(range.toString());
    }
    event.clipboardData.setData("text/plain", out.join("\n"));
    event.preventDefault();
  }
}

function make(tag, names, text) {
  const element = document.createElement(tag);
  if (names) element.className = names;
  if (text) element.textContent = text; // never markup: what a job prints is only text
  return element;
}

function* cuts(from, to, hits) {
  for (const [start, end] of hits) {
    if (end <= from) continue;
    if (start >= to) break;
    if (start > from) yield [from, start, false];
    yield [Math.max(from, start), Math.min(to, end), true];
    from = Math.min(to, end);
  }
  if (from < to) yield [from, to, false];
}
