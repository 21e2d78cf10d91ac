// The lines of a log as they come: an event is not a line, so a line is joined from as many events as it takes.
import { carried, isCalm, look, plain, width } from "./ansi.js";

const PREPARING = new Set(["fetch", "inputs", "init", "validate"]);

/** A typed array that grows. */
class Column {
  constructor(Kind) { this.cells = new Kind(1024); }
  set(at, value) {
    if (at >= this.cells.length) {
      const larger = new this.cells.constructor(this.cells.length * 2);
      larger.set(this.cells);
      this.cells = larger;
    }
    this.cells[at] = value;
  }
  get(at) { return this.cells[at]; }
}

export class Lines {
  /** `before` lines of the log come before the first one that is loaded. */
  constructor(before = 0) {
    this.before = before;
    this.texts = [];
    this.sections = []; // of one step of one attempt each: {step, attempt, label, from, to, folded, chosen}
    this.last = new Map(); // attempt → the number of its newest event
    this.times = new Column(Float64Array);
    this.widths = new Column(Uint32Array);
    this.isOurs = new Column(Uint8Array);
    this.styles = new Map(); // line → the style it starts in, where that is not the plain one
    this.style = 0; // after the last line, and before it
    this.styleBefore = 0;
    this.isOpen = false;
  }

  /** The number of a line as people see it. */
  number(line) { return this.before + line + 1; }

  get length() { return this.texts.length; }

  /** Take one event; one that we have had is passed over. */
  add({ n, time, step, stream, text, attempt = 0 }) {
    if (n <= (this.last.get(attempt) ?? -1)) return;
    this.last.set(attempt, n);
    const at = typeof time === "number" ? time * 1000 : Date.parse(time);
    const ours = stream === "system" || stream === 2 ? 1 : 0;
    const section = this.#section(step, attempt, text);
    // A line never goes on in another step: what is left open there ends there.
    if (this.isOpen && (section.from === this.length || section.to < this.length || this.isOurs.get(this.length - 1) !== ours)) this.isOpen = false;
    const parts = text.split("\n");
    const ends = parts[parts.length - 1] === "";
    if (ends) parts.pop();
    const measure = isCalm(text) && !this.isOpen ? width : (line, style) => look(line, style).length;
    for (const part of parts) this.#take(part, at, ours, measure);
    this.isOpen = !ends;
    section.to = this.length;
  }

  #take(part, at, ours, measure) {
    const line = this.isOpen ? this.length - 1 : this.length;
    if (this.isOpen) this.texts[line] += part;
    else {
      this.texts.push(part);
      this.times.set(line, at);
      this.isOurs.set(line, ours);
      this.styleBefore = this.style;
      if (this.style) this.styles.set(line, this.style);
    }
    this.isOpen = false;
    this.widths.set(line, measure(this.texts[line], this.styleBefore));
    this.style = carried;
  }

  #section(step, attempt, text) {
    const current = this.sections[this.sections.length - 1];
    if (current?.step === step && current.attempt === attempt) return current;
    if (current && PREPARING.has(current.step) && !current.chosen) current.folded = true;
    const label = step === "between" ? (/ (approved|declined) by /.test(text) ? "Approval" : "Between attempts") : "";
    const next = { step, attempt, label, from: this.length, to: this.length, folded: false, chosen: false };
    this.sections.push(next);
    return next;
  }

  sectionOf(line) { return this.sections.find((section) => line >= section.from && line < section.to); }
  plain(line) { return plain(this.texts[line]); }
}
