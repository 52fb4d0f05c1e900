// Escapes characters that are invisible or that reorder the text around them: a user who decides by a
// text must see all of it. The terminal escapes the same characters (src/visible.rs).

/** Characters that draw nothing. The last one is a blank pattern that Unicode counts as a symbol. */
const hidden = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]$/u;
/** Characters that may be followed by a variation selector, which then chooses how they are drawn. */
const picture = /^[\u00a9\u00ae\u203c\u2049\u2122-\u2139\u2190-\u21ff\u2300-\u27bf\u2900-\u2bff\u{1f000}-\u{1faff}]$/u;

function isHidden(before, one, after) {
  if (!hidden.test(one)) return false;
  if (one !== "\ufe0e" && one !== "\ufe0f") return true;
  return /^[0-9#*]$/.test(before) ? after !== "\u20e3" : !picture.test(before);
}

function mark(character) {
  const made = document.createElement("span");
  made.className = "hidden-character";
  made.textContent = `\\u{${character.codePointAt(0).toString(16)}}`;
  return made;
}

/** Shows a text with its hidden characters escaped, except those in `keep`, isolated from the text around it. */
export function visible(text, keep = "") {
  const made = document.createElement("bdi");
  const all = [...String(text)];
  let plain = "";
  all.forEach((one, at) => {
    if (keep.includes(one) || !isHidden(all[at - 1] ?? "", one, all[at + 1] ?? "")) {
      plain += one;
      return;
    }
    made.append(plain, mark(one));
    plain = "";
  });
  made.append(plain);
  return made;
}

/** Shows a value as JSON. Each string is isolated, so that none can reorder the text beside it. */
export function json(value) {
  const made = document.createDocumentFragment();
  const written = JSON.stringify(value, null, 2) ?? "";
  for (const part of written.split(/("(?:\\.|[^"\\])*")/)) made.append(part.startsWith('"') ? visible(part) : part);
  return made;
}

/** Shows a result: a string as text, any other value as JSON. */
export const result = (value) => (typeof value === "string" ? visible(value.replaceAll("\r\n", "\n"), "\n\t") : json(value));
