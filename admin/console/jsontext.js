// JSON as a text that people read, without its numbers having been numbers on the way: a browser would write
// 12345678901234567890 and 1.10 as others.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s"{}[\],:]+/g;
const BEGINS = { "{": "}", "[": "]" };

/** Return the text with line breaks and indents; null if it is no object or list of JSON. */
export function indented(text) {
  if (!/^\s*[{[]/.test(text)) return null;
  try {
    JSON.parse(text); // only whether it is JSON
  } catch {
    return null;
  }
  let found = "";
  let depth = 0;
  const tokens = text.match(TOKEN);
  tokens.forEach((token, at) => {
    const next = tokens[at + 1];
    if (BEGINS[token]) {
      if (next === BEGINS[token]) found += token;
      else found += `${token}\n${"  ".repeat((depth += 1))}`;
    } else if (token === "}" || token === "]") {
      const empty = BEGINS[tokens[at - 1]] === token;
      found += empty ? token : `\n${"  ".repeat((depth -= 1))}${token}`;
    } else if (token === ",") found += `,\n${"  ".repeat(depth)}`;
    else found += token === ":" ? ": " : token;
  });
  return found;
}
