// Characters that nobody sees, or that reorder what is around them, made visible: whoever decides by
// a text must see all of it. The terminal shows the same (src/visible.rs).

/** What has no shape of its own; the last one is empty, though it counts as a shape. */
const hidden = /^[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]$/u;
/** A selector after one of these chooses how it is drawn, and hides nothing. */
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

/** A text whose hidden characters are visible, and which reorders nothing outside. Some may be kept. */
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

/** A value as JSON. Every text in it is on its own, so that none can move what stands beside it. */
export function json(value) {
  const made = document.createDocumentFragment();
  const written = JSON.stringify(value, null, 2) ?? "";
  for (const part of written.split(/("(?:\\.|[^"\\])*")/)) made.append(part.startsWith('"') ? visible(part) : part);
  return made;
}

/** A result: a text as it is, anything else as JSON. */
export const result = (value) => (typeof value === "string" ? visible(value.replaceAll("\r\n", "\n"), "\n\t") : json(value));
