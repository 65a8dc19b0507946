// Numbers, sizes and times as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const NUMBER = new Intl.NumberFormat();
const TIME_MS_MAX = 8.64e15; // the last moment a browser knows

/** A count in this browser's number format. Offsets and ids are not formatted. */
export function count(number) {
  return number === null || number === undefined ? null : NUMBER.format(Number(number));
}

export function bytes(number) {
  if (number === null || number === undefined) return null;
  let unit = 0;
  let value = number;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit && value < 10 ? value.toFixed(1) : Math.round(value)} ${UNITS[unit]}`;
}

/** A time to the millisecond, in this browser's zone; an invalid time as a number. */
export function moment(ms) {
  if (ms === null || ms === undefined || ms < 0) return null;
  if (ms > TIME_MS_MAX) return String(ms);
  const at = new Date(ms);
  const two = (value) => String(value).padStart(2, "0");
  const date = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${date} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}

/** The time of day of a moment, without its date. */
export function clock(ms) {
  return moment(ms)?.slice(11) ?? "–";
}

/** The time zone of displayed times. */
export function zone() {
  const minutes = -new Date().getTimezoneOffset();
  const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
  const offset = minutes ? `${minutes < 0 ? "−" : "+"}${hours}${rest ? `:${String(rest).padStart(2, "0")}` : ""}` : "";
  const name = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return name === "UTC" && !offset ? "UTC" : `${name}, UTC${offset}`;
}

const AGES = [[60, 1, "s"], [3600, 60, "min"], [172_800, 3600, "h"], [Infinity, 86_400, "days"]];

export function ago(ms, now = Date.now()) {
  return `${lasting(now - ms)} ago`;
}

/** A duration so far, at most to the second. */
export function lasting(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  const [, size, unit] = AGES.find(([below]) => seconds < below);
  return `${count(Math.round(seconds / size))} ${unit}`;
}

/** A duration or a limit. */
export function span(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

const LONG_MAX = "9223372036854775807";
const NO_LIMIT = ["retention.ms", "retention.bytes", "log.retention.ms", "log.retention.bytes", "local.retention.ms", "local.retention.bytes"];

/** The value of a config as people read it: a duration or a size; null where it is neither, or reads the same. */
export function human(name, value) {
  if (!/^-?\d+$/.test(value ?? "")) return null;
  const unit = name.split(".").at(-1);
  const isSize = ["bytes", "size"].includes(unit) || name.endsWith("bytes.per.second");
  if (unit !== "ms" && !isSize) return null;
  if (value === "-1") return NO_LIMIT.includes(name) ? "unlimited" : null;
  if (value === LONG_MAX) return "no limit";
  const number = Number(value);
  if (isSize) return number < 1024 ? null : bytes(number);
  if (number < 1000) return null;
  const [, size, word] = DURATIONS.find(([least, each]) => number >= least && (number % each === 0 || number >= 10 * each)) ?? [1000, 1000, "s"];
  return word === "day" ? plural(Math.round(number / size), word) : `${count(Math.round((10 * number) / size) / 10)} ${word}`;
}

const DURATIONS = [[86_400_000, 86_400_000, "day"], [3_600_000, 3_600_000, "h"], [60_000, 60_000, "min"], [1000, 1000, "s"]];

export function list(numbers) {
  return numbers && numbers.length ? numbers.join(", ") : "–";
}

export function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}
