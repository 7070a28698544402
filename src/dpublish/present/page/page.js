// Looks numbers up and shows them. No statistics: every number was worked out by the release itself.
// Strings of the release reach the page as text nodes and attribute values only.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";

// Whole numbers as Python prints them: 1234567 -> 1,234,567; null is no limit.
export function written(number) {
  if (number === null) return "no limit";
  const digits = String(Math.abs(number)).replace(/\B(?=(\d{3})+$)/g, ",");
  return number < 0 ? `-${digits}` : digits;
}

function element(tag, attributes = {}, ...children) {
  const made = tag === "svg" || element.inSvg ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
function drawn(tag, attributes, ...children) {
  element.inSvg = true;
  try { return element(tag, attributes, ...children); } finally { element.inSvg = false; }
}

const tables = data.singles.length ? data.singles : data.lists;
const names = tables.map((table) => table.columns[0]);
const crossed = new Map(data.crossed.map((table) => [table.columns.join("\u0000"), table]));

const titles = new Map(data.columns.map((column) => [column.name, column.title ?? column.name]));
const titled = (name) => titles.get(name) ?? name;
const ordered = new Set(data.columns.filter((column) => column.ordered).map((column) => column.name));
function option(value, text) { return element("option", { value }, text ?? value); }

// -- the state of the view, which is its address

function readState() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const column = names.includes(asked.get("column")) ? asked.get("column") : names[0];
  const wanted = asked.get("by");
  return {
    column,
    by: canBe(column, wanted) ? wanted : "",
    sort: ["up", "down"].includes(asked.get("sort")) ? asked.get("sort") : "",
    filter: asked.get("filter") ?? "",
    from: asked.get("from"),
    to: asked.get("to"),
  };
}
function address(state) {
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(state)) if (value !== "" && value !== null) asked.set(name, value);
  return `#${asked}`;
}

// -- tables

// Whether the page has something to say of two columns: a table, or means of one by the other.
function canBe(first, second) {
  const summed = ([of, by]) => data.byGroup.some((found) => found.of === of && found.by === by);
  return Boolean(crossTable(first, second)) || [[first, second], [second, first]].some(summed);
}
function crossTable(first, second) {
  if (!second) return null;
  for (const [key, table] of crossed) {
    const columns = key.split("\u0000");
    if (columns.length > 2 ? key === second && columns[0] === first : false) return table;
    if (columns.length === 2 && columns[0] === first && columns[1] === second) return table;
    if (columns.length === 2 && columns[0] === second && columns[1] === first) return turned(table);
  }
  return null;
}
function turned(table) {
  const [rows, columns] = table.labels.map((labels) => labels.length);
  const turn = (list) => {
    const out = [];
    for (let c = 0; c < columns; c++) for (let r = 0; r < rows; r++) out.push(list[r * columns + c]);
    return out;
  };
  return { ...table, columns: [...table.columns].reverse(), labels: [...table.labels].reverse(),
           v: turn(table.v), l: turn(table.l), h: turn(table.h) };
}
// Rows of a table: a label and one number for every combination of the other columns.
export function rowsOf(table) {
  const width = table.labels.slice(1).reduce((product, labels) => product * labels.length, 1);
  return table.labels[0].map((label, row) => ({
    label,
    where: table.where ? table.where[row] : "",
    scale: table.s ? table.s[row] : 1,
    cells: Array.from({ length: width }, (_, column) => {
      const at = row * width + column;
      return { value: table.v[at], low: table.l[at], high: table.h[at] };
    }),
  }));
}
function headings(table) {
  return table.labels.slice(1).reduce(
    (made, labels) => made.flatMap((start) => labels.map((label) => (start ? `${start}, ${label}` : label))), [""]);
}

function chosen(state) {
  const table = crossTable(state.column, state.by) ?? tables[names.indexOf(state.column)];
  let rows = rowsOf(table);
  const wanted = state.filter.trim().toLowerCase();
  if (wanted) rows = rows.filter((row) => row.label.toLowerCase().includes(wanted));
  if (state.sort) {
    const sign = state.sort === "down" ? -1 : 1;
    const size = (row) => row.cells.reduce((sum, cell) => sum + (cell.value ?? 0), 0);
    rows = [...rows].sort((a, b) => sign * (size(a) - size(b)));
  }
  return { table, rows };
}

const SURE = "In at least 95 of 100 such releases the true number lies between the limits.";

function showTable(state, { table, rows }) {
  const crossing = table.columns.length > 1;
  const head = crossing ? headings(table) : ["rows", "95% limits"];
  const top = element("tr", {}, element("th", { scope: "col" }, crossing ? `${titled(table.columns[0])} \\ ${table.columns.slice(1).map(titled).join(", ")}` : titled(table.columns[0])),
    ...head.map((text) => element("th", { scope: "col", class: "number" }, text)), ...(crossing ? [] : [element("th", { scope: "col" }, "how sure is this?")]));
  const body = rows.map((row) => {
    const line = element("tr", {}, element("th", { scope: "row" }, row.label));
    for (const cell of row.cells) {
      const limits = `${written(cell.low)} to ${written(cell.high)}`;
      if (crossing) {
        line.append(element("td", { class: table.uncounted ? "number uncounted" : "number" }, written(cell.value),
          element("span", { class: "limits" }, limits)));
        continue;
      }
      line.append(element("td", { class: "number" }, written(cell.value)), element("td", { class: "number" }, limits),
        element("td", {}, element("details", {}, element("summary", {}, "how sure?"),
          element("p", {}, `${SURE} ${table.note ?? ""}`), row.where ? element("p", {}, "Condition: ", element("code", {}, row.where)) : "")));
    }
    return line;
  });
  byId("table").replaceChildren(element("table", head.length > 6 ? { class: "wide" } : {}, element("caption", { class: "soft" }, caption(table, rows)), element("thead", {}, top), element("tbody", {}, ...body)));
}
function caption(table, rows) {
  const all = table.labels[0].length;
  return `${table.columns.map(titled).join(" by ")}: ${rows.length === all ? "" : `${rows.length} of ${all} rows, `}numbers of rows with 95% limits${table.uncounted ? "; not counted together (hatched)" : ""}`;
}

// -- the chart: bars with error bars, hatched where columns were not counted together

function showChart({ table, rows }) {
  const head = headings(table);
  const bars = rows.flatMap((row) => row.cells.map((cell, at) => ({ ...cell, s: row.scale, label: head[at] ? `${row.label} · ${head[at]}` : row.label })));
  if (!bars.length || bars.length > 160) {
    byId("chart").replaceChildren(element("p", { class: "soft" }, bars.length ? "Too many bars to draw: filter the rows, or read the table." : "No row has this in its name."));
    return;
  }
  // a phone gets a narrower drawing, so that its letters can be read
  const narrow = window.innerWidth < 560, most_letters = narrow ? 18 : 36;
  const longest = Math.min(most_letters, Math.max(...bars.map((bar) => bar.label.length)));
  const line = 22, left = 24 + 7 * longest, right = narrow ? 70 : 110, width = narrow ? 430 : 860, height = 8 + line * bars.length + 26;
  const most = Math.max(1, ...bars.flatMap((bar) => [bar.value * bar.s, (bar.high ?? bar.value) * bar.s]));
  const room = width - left - right, bent = spansDecades(bars.map((bar) => bar.value * bar.s));
  // on a logarithmic axis 0 has the place of a row's tenth
  const along = (number) => left + room * (bent ? (Math.log10(Math.max(number, 0.1)) + 1) / (Math.log10(most) + 1) : number / most);
  const parts = [hatching("hatched")], every = marks(most, bent), apart = narrow && every.length > 5 ? 2 : 1;
  for (const mark of every.filter((_, at) => at % apart === 0)) {
    const x = along(mark);
    parts.push(drawn("line", { class: "grid", x1: x, x2: x, y1: 4, y2: height - 22 }));
    parts.push(drawn("text", { class: "soft-text", x, y: height - 6, "text-anchor": "middle" }, written(Math.round(mark))));
  }
  bars.forEach((bar, at) => {
    const y = 8 + at * line, middle = y + line / 2 - 2;
    const label = bar.label.length > most_letters ? `${bar.label.slice(0, most_letters - 1)}…` : bar.label;
    const start = along(bar.low * bar.s), end = along(bar.high === null ? most : bar.high * bar.s);
    parts.push(drawn("text", { x: left - 8, y: middle + 4, "text-anchor": "end" }, label),
      drawn("rect", { class: "bar", x: left, y: y + 1, height: line - 7, width: Math.max(0, along(bar.value * bar.s) - left) }),
      drawn("line", { class: "error", x1: start, x2: end, y1: middle, y2: middle }),
      drawn("line", { class: "error", x1: start, x2: start, y1: middle - 4, y2: middle + 4 }));
    if (bar.high !== null) parts.push(drawn("line", { class: "error", x1: end, x2: end, y1: middle - 4, y2: middle + 4 }));
    else parts.push(drawn("text", { x: end + 2, y: middle + 4 }, "→"));
    parts.push(drawn("text", { x: end + 14, y: middle + 4 }, written(bar.value)));
  });
  const picture = drawn("svg", { class: `plot${table.uncounted ? " uncounted" : ""}${bars.length > 50 ? " long" : ""}`, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Bars with 95% limits; the same numbers are in the table: ${caption(table, rows)}` }, ...parts);
  for (const bar of table.uncounted ? picture.querySelectorAll("rect.bar") : []) bar.setAttribute("class", "hatched-bar");
  const said = [];
  if (table.per) said.push(element("p", { class: "soft" }, table.per));
  if (bent) said.push(element("p", { class: "soft" }, "Logarithmic axis: each step is ten times the one before."));
  const map = mapOf(table, rows);
  byId("chart").replaceChildren(...(map ? [map, element("details", {}, element("summary", {}, "The same as bars with their limits"), ...said, picture)] : [...said, picture]));
}
// Each drawing has its own: what stands in a closed part of the page draws nothing elsewhere.
function hatching(id) {
  return drawn("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
    drawn("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 6 }));
}
// Whether numbers differ so much that the small ones cannot be seen beside the large ones.
export function spansDecades(numbers) {
  const seen = numbers.filter((number) => number >= 1).sort((a, b) => a - b);
  return seen.length > 2 && seen.at(-1) >= 1000 * seen[Math.floor(seen.length / 2)];
}
function marks(most, bent) {
  const power = 10 ** Math.floor(Math.log10(most)), step = power / (most / power < 2 ? 4 : 1), out = [0];
  if (bent) for (let mark = 1; mark <= most; mark *= 10) out.push(mark);
  else for (let mark = step; mark <= most * 1.0001; mark += step) out.push(mark);
  return out;
}

// -- a map: two columns with an order, the darker the more rows; the table beside it has every number

function mapOf(table, rows) {
  if (table.columns.length !== 2 || !table.columns.every((name) => ordered.has(name)) || rows.length < 3) return null;
  const head = headings(table), side = 44, left = 120, top = 8, foot = 92;
  const most = Math.max(1, ...rows.flatMap((row) => row.cells.map((cell) => cell.value)));
  const width = left + side * head.length + 8, height = top + 30 * rows.length + foot, parts = [hatching("hatched-map")];
  const short = (text) => (text.length > 16 ? `${text.slice(0, 15)}…` : text);
  rows.forEach((row, down) => {
    const y = top + 30 * down;
    parts.push(drawn("text", { x: left - 8, y: y + 19, "text-anchor": "end" }, short(row.label)));
    row.cells.forEach((cell, across) => {
      const x = left + side * across, shade = Math.sqrt(Math.max(0, cell.value) / most);
      const what = `${row.label} · ${head[across]}: ${written(cell.value)} (${written(cell.low)} to ${written(cell.high)})`;
      parts.push(drawn("rect", { class: "bar", x, y, width: side - 2, height: 28, "fill-opacity": (0.06 + 0.94 * shade).toFixed(3) }, drawn("title", {}, what)));
      if (table.uncounted) parts.push(drawn("rect", { class: "over", x, y, width: side - 2, height: 28 }));
    });
  });
  head.forEach((text, across) => parts.push(drawn("text", { x: 0, y: 0, "text-anchor": "end", transform: `translate(${left + side * across + side / 2 + 4} ${top + 30 * rows.length + 14}) rotate(-40)` }, short(text))));
  const picture = drawn("svg", { class: "plot map", viewBox: `0 0 ${width} ${height}`, width: 1.1 * width, role: "img", "aria-label": `Map: the darker, the more rows; the same numbers are in the table: ${caption(table, rows)}` }, ...parts);
  return element("div", {}, element("p", { class: "soft" }, `${titled(table.columns[0])} downwards, ${titled(table.columns[1])} to the right: the darker, the more rows (by their square root).`), picture);
}

// -- ranges of an ordered column

export function rangeAt(ranges, first, last) {
  const count = ranges.from.length;
  let at = 0;
  for (let row = 0; row < first; row++) at += count - row;
  at += last - first;
  return { value: ranges.v[at], low: ranges.l[at], high: ranges.h[at], where: ranges.where[at] };
}
function showRange(state) {
  const form = byId("range-form");
  if (!form) return null;
  const ranges = data.ranges[state.column];
  form.hidden = !ranges || Boolean(state.by);
  byId("range-sure").replaceChildren();
  if (form.hidden) return null;
  const first = Math.max(0, ranges.from.indexOf(state.from ?? ranges.from[0]));
  const last = Math.max(first, ranges.to.indexOf(state.to ?? ranges.to.at(-1)));
  byId("from").replaceChildren(...ranges.from.map((text) => option(text)));
  byId("to").replaceChildren(...ranges.to.map((text) => option(text)));
  byId("from").value = ranges.from[first];
  byId("to").value = ranges.to[last];
  const found = rangeAt(ranges, first, last);
  byId("range-answer").textContent = `${written(found.value)} rows (95% limits ${written(found.low)} to ${written(found.high)})`;
  byId("range-sure").replaceChildren(howSure([ranges.note], shellQuoted(found.where)));
  return found;
}

// -- mean and quantiles of a column of numbers, as they were printed

function showSummary(state) {
  const place = byId("summary"), found = data.summaries?.[state.column];
  if (!place) return;
  byId("groups").replaceChildren(...(state.by ? groupSummaries(state) : []));
  if (!found || state.by) { place.replaceChildren(); return; }
  const top = element("tr", {}, ...found.map((one) => element("th", { scope: "col", class: "number" }, one.what)));
  const line = element("tr", {}, ...found.map((one) => element("td", { class: "number" }, one.v, limitsOf(one.l, one.h))));
  place.replaceChildren(
    element("table", { class: "summary" }, element("caption", { class: "soft" }, `${titled(state.column)}: the mean${found.length > 1 ? ", and the values that so many of the rows are not above," : ""} with 95% limits`), element("thead", {}, top), element("tbody", {}, line)),
    howSure(found.map((one) => one.note), `"${found[0].ask}"`));
}
const limitsOf = (low, high) => element("span", { class: "limits" }, `${low} to ${high}`);
function howSure(notes, asked) {
  const said = [...new Set(notes.filter(Boolean))].map((note) => element("p", {}, `Limits: ${note}.`));
  return element("details", {}, element("summary", {}, "how sure?"), element("p", {}, SURE), ...said,
    element("p", {}, "To ask again: ", element("code", {}, `dpublish query ${data.file} ${asked}`)));
}
// Means and quantiles of one of two columns by the groups of the other, whichever of them is numbers.
export function groupSummaries(state) {
  const made = [];
  for (const [of, by] of [[state.column, state.by], [state.by, state.column]]) {
    const one = data.byGroup.find((found) => found.of === of && found.by === by);
    if (!one) {
      if (data.summaries?.[of] && titles.has(by) && crossTable(of, by)?.uncounted) made.push(element("p", { class: "soft" }, `Means of ${titled(of)} by ${titled(by)} are not listed: the two were not counted together, so that limits are nearly as wide as the column. To ask: `,
        element("code", {}, `dpublish sql ${data.file} ${shellQuoted(`select ${named(by)}, avg(${named(of)}) from release group by ${named(by)}`)}`)));
      continue;
    }
    const top = element("tr", {}, element("th", { scope: "col" }, titled(by)), ...one.what.map((what) => element("th", { scope: "col", class: "number" }, what)));
    const body = one.labels.map((label, row) => element("tr", {}, element("th", { scope: "row" }, label),
      ...one.cells[row].map((cell) => (cell ? element("td", { class: "number" }, cell[0], limitsOf(cell[1], cell[2])) : element("td", { class: "number" }, "-")))));
    made.push(element("table", { class: "summary" }, element("caption", { class: "soft" }, `${titled(of)} by ${titled(by)}: the mean${one.what.length > 1 ? ", and the values that so many of the rows of a group are not above," : ""} with 95% limits`), element("thead", {}, top), element("tbody", {}, ...body)),
      howSure(one.notes, `"mean(${named(of)})" --where ${shellQuoted(one.where[0])}`));
  }
  return made;
}

// -- commands, files, links

function shellQuoted(text) { return `'${text.replaceAll("'", "'\\''")}'`; }
function named(name) { return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : `"${name}"`; }
function commands(state, found) {
  const quoted = shellQuoted, column = named;
  const asked = [state.column, ...(state.by ? state.by.split("\u0000").filter((name) => name !== state.column) : [])];
  const lines = [];
  if (data.calls.includes("marginal") && data.singles.length) {
    lines.push(`dpublish query ${quoted(data.file)} ${asked.map((name) => `--by ${quoted(name)}`).join(" ")}`,
      `python:  dp.open_release(${JSON.stringify(data.file)}).marginal(${asked.map((name) => JSON.stringify(name)).join(", ")})`);
  }
  if (data.calls.includes("sql") && data.singles.length) {
    const list = asked.map(column).join(", ");
    lines.push(`dpublish sql ${quoted(data.file)} ${quoted(`select ${list}, count(*) from release group by ${list}`)}`);
  }
  if (found) lines.push(`dpublish query ${quoted(data.file)} ${quoted(found.where)}`);
  if (data.lists.length) lines.push(`dpublish query ${quoted(data.file)} ${quoted("bread and milk")}`, `python:  dp.open_release(${JSON.stringify(data.file)}).top_itemsets(50, level=0.95)`);
  return lines.join("\n");
}
// A cell that a spreadsheet would take for a formula is written as text.
export function csvCell(text) {
  const cell = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}
// What was printed as a number is written as one, without the commas of thousands; anything else is text.
function csvNumber(text) { return /^-?[\d,]+(\.\d+)?(e[+-]?\d+)?$/.test(text) ? text.replaceAll(",", "") : csvCell(text); }
// The table that is shown, and after an empty line each table of means and quantiles below or above it.
export function asCsv(state) {
  const { table, rows } = chosen(state), head = headings(table), texts = (line, many) => line.map((cell, at) => (at < many ? csvCell(cell) : cell)).join(",");
  const lines = [texts([table.columns[0], table.columns.slice(1).join(", "), "rows", "low", "high"], 5)];
  for (const row of rows) row.cells.forEach((cell, at) => lines.push(texts([row.label, head[at] ?? "", ...[cell.value, cell.low, cell.high].map((number) => number ?? "")], 2)));
  const block = (of, by, found) => lines.push("", texts([by, "measure", of, "low", "high"], 5),
    ...found.map(([label, what, ...numbers]) => texts([label, what, ...numbers.map(csvNumber)], 2)));
  if (!state.by) {
    const all = data.summaries?.[state.column];
    if (all) block(state.column, "", all.map((one) => ["all", one.what, one.v, one.l, one.h]));
    return lines.join("\r\n");
  }
  for (const [of, by] of [[state.column, state.by], [state.by, state.column]]) {
    const one = data.byGroup.find((found) => found.of === of && found.by === by);
    if (one) block(of, by, one.labels.flatMap((label, row) => one.what.flatMap((what, at) => (one.cells[row][at] ? [[label, what, ...one.cells[row][at].slice(0, 3)]] : []))));
  }
  return lines.join("\r\n");
}
function save(name, content, type) {
  const link = element("a", { download: name, href: URL.createObjectURL(new Blob([content], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function show() {
  const state = readState();
  const view = chosen(state);
  byId("column").value = state.column;
  const by = byId("by");
  if (by) {
    const others = names.filter((name) => name !== state.column && canBe(state.column, name));
    const wider = [...crossed.keys()].filter((key) => key.split("\u0000").length > 2 && key.split("\u0000")[0] === state.column);
    by.replaceChildren(option("", "nothing else"), ...others.map((name) => option(name, titled(name))), ...wider.map((key) => option(key, key.split("\u0000").slice(1).map(titled).join(" and "))));
    by.value = state.by;
  }
  byId("sort").value = state.sort;
  if (document.activeElement !== byId("filter")) byId("filter").value = state.filter;
  const alone = state.by && view.table.columns.length === 1;
  byId("note").textContent = `${alone ? `The page has no cross-table of ${titled(state.column)} and ${titled(state.by)}; means by group stand below. ` : ""}${view.table.note ?? ""}`;
  const found = showRange(state);
  showSummary(state);
  showChart(view);
  showTable(state, view);
  byId("commands").textContent = commands(state, found);
}

function change(part) {
  const state = { ...readState(), ...part };
  if ("column" in part) Object.assign(state, { from: null, to: null, filter: "", by: canBe(part.column, state.by) ? state.by : "" });
  history.replaceState(null, "", address(state));
  show();
}

if (names.length) {
  byId("column").replaceChildren(...names.map((name) => option(name, titled(name))));
  for (const id of ["column", "by", "sort", "from", "to"]) byId(id)?.addEventListener("change", (event) => change({ [id]: event.target.value }));
  byId("filter").addEventListener("input", (event) => change({ filter: event.target.value }));
  byId("csv").addEventListener("click", () => { const state = readState(); save(`${state.column}${state.by ? `-by-${state.by}` : ""}.csv`.replaceAll("\u0000", "-"), asCsv(state), "text/csv"); });
  byId("print").addEventListener("click", () => window.print());
  byId("link").addEventListener("click", async () => {
    history.replaceState(null, "", address(readState()));
    try { await navigator.clipboard.writeText(location.href); byId("said").textContent = "Copied."; }
    catch { byId("said").textContent = `Copy the address of this page: ${location.hash}`; }
  });
  for (const form of document.querySelectorAll("form")) form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) show(); });
  show();
}
byId("download")?.addEventListener("click", () => {
  const kept = byId("release"), bytes = Uint8Array.from(atob(kept.textContent.trim()), (letter) => letter.charCodeAt(0));
  save(kept.dataset.name, bytes, "application/octet-stream");
});
window.lookedUp = { rowsOf, rangeAt, written, csvCell, asCsv, crossTable, groupSummaries, spansDecades, data };
