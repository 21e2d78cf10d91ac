// What a terminal would show for one line: colours and weights by SGR, `\r` and `\b` as the moves they are, everything else dropped.

// A style is one number: foreground + 1 in bits 0–4, background + 1 in bits 5–9, flags above.
const BOLD = 1 << 10, DIM = 1 << 11, ITALIC = 1 << 12, UNDERLINE = 1 << 13, INVERSE = 1 << 14, STRIKE = 1 << 15;
const FLAGS = [[BOLD, "b"], [DIM, "d"], [ITALIC, "i"], [UNDERLINE, "u"], [STRIKE, "s"]];
const SET = { 1: BOLD, 2: DIM, 3: ITALIC, 4: UNDERLINE, 7: INVERSE, 9: STRIKE };
const CLEAR = { 22: BOLD | DIM, 23: ITALIC, 24: UNDERLINE, 27: INVERSE, 29: STRIKE };

const SPECIAL = /[\x00-\x08\x0b-\x1f\x7f\t]/;
const MOVES = /[\r\b]/;
const MOVING = /[\x00-\x09\x0b-\x1a\x1c-\x1f\x7f]/;
const TOKEN = /\x1b\[([0-9;:?]*)[ -/]*([@-~])|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\|$)|\x1b[PX^_][^\x1b]*(?:\x1b\\|$)|\x1b\[[0-9;:?]*[ -/]*$|\x1b[ -/]*[0-~]?|([\r\b\t])|[\x00-\x08\x0b-\x1f\x7f]|[^\x00-\x1f\x7f]+/g;
const TAB = 8;
const MOVES_KEPT = 32 << 10; // of a line that overwrites itself, only its end can still be seen

export const isPlain = (text) => !SPECIAL.test(text);

/** The style after an SGR sequence. */
function restyle(style, params) {
  const codes = params.split(/[;:]/).map(Number);
  for (let at = 0; at < codes.length; at++) {
    const code = codes[at];
    if (code === 0) style = 0;
    else if (SET[code]) style |= SET[code];
    else if (CLEAR[code]) style &= ~CLEAR[code];
    else if (code >= 30 && code <= 37) style = ink(style, code - 30);
    else if (code >= 90 && code <= 97) style = ink(style, code - 82);
    else if (code === 39) style = ink(style, -1);
    else if (code >= 40 && code <= 47) style = paper(style, code - 40);
    else if (code >= 100 && code <= 107) style = paper(style, code - 92);
    else if (code === 49) style = paper(style, -1);
    else if (code === 38 || code === 48) {
      const many = codes[at + 1] === 2;
      const colour = many ? nearest(codes[at + 2], codes[at + 3], codes[at + 4]) : indexed(codes[at + 2]);
      style = code === 38 ? ink(style, colour) : paper(style, colour);
      at += many ? 4 : 2;
    }
  }
  return style;
}

const ink = (style, colour) => (style & ~31) | (colour + 1);
const paper = (style, colour) => (style & ~(31 << 5)) | ((colour + 1) << 5);

/** The palette of 256 and true colours come down to the sixteen that follow the theme. */
function indexed(colour = 0) {
  if (colour < 16) return colour;
  if (colour >= 232) return nearest(...Array(3).fill((colour - 232) * 10 + 8));
  const level = (part) => (part ? part * 40 + 55 : 0);
  return nearest(level(Math.floor((colour - 16) / 36)), level(Math.floor(((colour - 16) % 36) / 6)), level((colour - 16) % 6));
}

function nearest(red = 0, green = 0, blue = 0) {
  const most = Math.max(red, green, blue), least = Math.min(red, green, blue);
  if (most - least < 32) return most < 48 ? 0 : most < 150 ? 8 : most < 220 ? 7 : 15;
  const half = (most + least) / 2;
  return (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0) + (most > 215 && least > 60 ? 8 : 0);
}

const learned = new Map(); // few sequences make up almost all of a log

function restyled(style, params) {
  const key = `${style} ${params}`;
  let after = learned.get(key);
  if (after === undefined) {
    if (learned.size > 5000) learned.clear();
    learned.set(key, (after = restyle(style, params)));
  }
  return after;
}

/** Whether the only special thing about a text are its lines and its sequences: then the short ways below are good enough. */
export const isCalm = (text) => !MOVING.test(text);

/** How wide a calm line is; the style in which the next one starts is left in `carried`. */
export function width(text, style) {
  let hidden = 0;
  carried = style;
  for (let at = text.indexOf("\x1b"); at >= 0; at = text.indexOf("\x1b", at + 1)) {
    const end = endOf(text, at);
    if (end < 0) return look(text, style).length;
    if (text[end] === "m") carried = restyled(carried, text.slice(at + 2, end));
    hidden += end + 1 - at;
  }
  return text.length - hidden;
}
export let carried = 0;

/** What any line leaves on the screen; the style in which the next one starts is left in `carried`. */
export function look(text, style) {
  carried = style;
  if (text.includes("\x1b")) for (const [, params, final] of text.matchAll(TOKEN)) if (final === "m") carried = restyled(carried, params);
  return runs(text).map(([part]) => part).join("");
}

/** The text of a line without its sequences. */
export function plain(text) {
  if (isPlain(text)) return text;
  if (!isCalm(text)) return look(text, 0);
  let out = "", from = 0;
  for (let at = text.indexOf("\x1b"); at >= 0; at = text.indexOf("\x1b", from)) {
    const end = endOf(text, at);
    if (end < 0) return look(text, 0);
    out += text.slice(from, at);
    from = end + 1;
  }
  return out + text.slice(from);
}

/** Where a sequence of the usual kind ends; -1 for any other. */
function endOf(text, at) {
  if (text.charCodeAt(at + 1) !== 0x5b) return -1;
  let end = at + 2;
  while (end < text.length && text.charCodeAt(end) < 0x40) end++;
  return end < text.length ? end : -1;
}

/** The runs of a line: [text, style] in the order of the screen. */
export function runs(text, style = 0) {
  if (text.endsWith("\r")) text = text.slice(0, -1);
  if (isPlain(text)) return text ? [[text, style]] : [];
  return MOVES.test(text) ? moved(text, style) : straight(text, style);
}

function straight(text, style) {
  const out = [];
  let column = 0;
  for (const match of text.matchAll(TOKEN)) {
    let [part, params, final, move] = match;
    if (final === "m") style = restyle(style, params);
    if (move === "\t") part = " ".repeat(TAB - (column % TAB));
    else if (part < " " || part[0] === "\x7f") continue;
    column += part.length;
    if (out.length && out[out.length - 1][1] === style) out[out.length - 1][0] += part;
    else out.push([part, style]);
  }
  return out;
}

function moved(text, style) {
  if (text.length > MOVES_KEPT) text = text.slice(text.indexOf("\r", text.length - MOVES_KEPT) + 1);
  const cells = [], styles = [];
  let column = 0;
  for (const [part, params, final, move] of text.matchAll(TOKEN)) {
    if (final === "m") style = restyle(style, params);
    else if (final === "K") erase(cells, styles, column, params);
    else if (move === "\r") column = 0;
    else if (move === "\b") column = Math.max(0, column - 1);
    else if (move === "\t") column += TAB - (column % TAB);
    else if (part >= " " && part[0] !== "\x7f")
      for (const cell of part) (cells[column] = cell), (styles[column++] = style);
  }
  const out = [];
  for (let at = 0; at < cells.length; at++) {
    const cell = cells[at] ?? " ", its = styles[at] ?? 0;
    if (out.length && out[out.length - 1][1] === its) out[out.length - 1][0] += cell;
    else out.push([cell, its]);
  }
  return out;
}

function erase(cells, styles, column, mode) {
  if (mode === "" || mode === "0") cells.length = styles.length = Math.min(cells.length, column);
  else if (mode === "2") cells.length = styles.length = 0;
  else for (let at = 0; at <= column && at < cells.length; at++) (cells[at] = " "), (styles[at] = 0);
}

/** The names of a style's classes; the look belongs to the style sheet. */
export function classes(style) {
  let front = (style & 31) - 1, back = ((style >> 5) & 31) - 1;
  const names = FLAGS.filter(([flag]) => style & flag).map(([, name]) => name);
  if (style & INVERSE) names.push("r");
  if (front >= 0) names.push(`f${front}`);
  if (back >= 0) names.push(`g${back}`);
  return names.join(" ");
}
