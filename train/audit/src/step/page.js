"use strict";
// The page of one training step: a map of groups and ops to zoom into, and a panel for what is chosen.

const step = JSON.parse(document.getElementById("step").textContent);
const $ = (id) => document.getElementById(id);

/** An element with attributes and children; strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// ── The tree: groups by scope, ops in them, fused ops with their definitions inside ─────────────────────────────────

/** A place on the map: a group of nodes, an op, or a parameter. `nodes` are all nodes of its list that it covers. */
class Place {
  constructor(name, parent, list, node = null) {
    const key = parent === null ? "" : parent.key ? `${parent.key}.${name}` : name;
    Object.assign(this, { name, parent, list, node, key, children: [], nodes: node ? [node.id] : [] });
  }
}

const places = new Map(); // by key
const placeOf = new Map(); // list of nodes → place of each node

function grow(list, root) {
  const of = new Array(list.length).fill(null);
  placeOf.set(list, of);
  const used = new Map();
  const add = (name, parent, node) => {
    const first = new Place(name, parent, list, node), seen = (used.get(first.key) || 0) + 1;
    used.set(first.key, seen);
    const place = seen > 1 ? new Place(`${name}-${seen}`, parent, list, node) : first;
    parent.children.push(place);
    places.set(place.key, place);
    return place;
  };
  const groups = new Map();
  for (const node of list) {
    if (node.op === "leaf") continue;
    let parent = root, path = "";
    for (const part of node.scope ? node.scope.split(".") : []) {
      path += "." + part;
      if (!groups.has(path)) groups.set(path, add(part, parent, null));
      parent = groups.get(path);
    }
    const place = add(node.op, parent, node);
    of[node.id] = place;
    for (let above = parent; above && above.list === list; above = above.parent) above.nodes.push(node.id);
    if (node.inside) grow(node.inside, place);
  }
}

const root = new Place("model", null, step.nodes);
places.set("", root);
for (const node of step.nodes) {
  if (node.op !== "leaf") continue;
  const place = new Place(node.name, root, step.nodes, node);
  place.parameter = true;
  places.set(node.name, place);
}
grow(step.nodes, root);
for (const node of step.nodes) if (node.op === "leaf") placeOf.get(step.nodes)[node.id] = places.get(node.name);

/** Is this op fused, so that its children are its definition? */
const isFused = (place) => place.node !== null && place.children.length > 0;
const listInside = (place) => (isFused(place) ? place.node.inside : place.list);
/** The last node of a place: what leaves it. */
const outlet = (place) => place.node || place.list[place.nodes[place.nodes.length - 1]];

// ── Numbers ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// A non-finite number comes as a word, and if none is finite as null.
const short = (x) => {
  if (typeof x !== "number") return x ?? "none";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(3) : String(Number(x.toPrecision(4)));
};
const exact = (x) => String(x ?? "non-finite");
const count = (n) => n.toLocaleString("en-US");
const bytes = (n) => (n < 1e4 ? `${count(n)} B` : n < 1e7 ? `${(n / 1e3).toFixed(1)} kB` : `${(n / 1e6).toFixed(1)} MB`);
const seconds = (s) => (s < 1e-3 ? `${(s * 1e6).toFixed(1)} µs` : s < 1 ? `${(s * 1e3).toFixed(2)} ms` : `${s.toFixed(2)} s`);
const shapeOf = (view) => `(${view.shape.join(", ")})`;

const dark = matchMedia("(prefers-color-scheme: dark)");
/** From −1 to 1: blue over the ground to orange. −∞, which masks, is grey; other words are wrong, and purple. */
function colour(t) {
  if (typeof t === "string") return t === "−∞" ? (dark.matches ? [84, 80, 74] : [196, 190, 180]) : [200, 0, 160];
  const ground = dark.matches ? [38, 35, 31] : [250, 248, 243];
  const end = t < 0 ? (dark.matches ? [96, 165, 250] : [23, 84, 178]) : dark.matches ? [251, 146, 60] : [196, 78, 10];
  const a = Math.sqrt(Math.min(Math.abs(t), 1));
  return ground.map((g, i) => Math.round(g + (end[i] - g) * a));
}

/** The numbers of a slice's map: exact where the tensor is whole, else means in 127ths. */
const numbersOf = (view, slice) => (view.top === null ? slice.map : slice.map.map((x) => (typeof x === "string" ? x : (x / 127) * view.top)));

function paint(canvas, view, slice, top) {
  const [rows, cols] = slice.cells;
  canvas.width = Math.max(cols, 1);
  canvas.height = Math.max(rows, 1);
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  numbersOf(view, slice).forEach((x, i) => {
    const [r, g, b] = colour(typeof x === "string" ? x : x / (top || 1));
    image.data.set([r, g, b, 255], 4 * i);
  });
  context.putImageData(image, 0, 0);
}

/** The largest magnitude of what is painted. */
const topOf = (view) => view.top ?? view.slices.reduce((top, s) => s.map.reduce((t, x) => (typeof x === "string" ? t : Math.max(t, Math.abs(x))), top), 0);

function thumbnail(view) {
  const canvas = make("canvas", { class: "thumb", "aria-hidden": "true" });
  if (view && view.slices.length) paint(canvas, view, view.slices[0], topOf(view));
  return canvas;
}

// ── The map ─────────────────────────────────────────────────────────────────────────────────────────────────────────

let here = root; // the place whose inside is shown
let chosen = root; // what the panel is about
let shows = "value"; // what thumbnails show: value or gradient

/** What flows between the children of a place, and from outside to them. */
function edgesOf(place) {
  const list = listInside(place);
  const of = new Map();
  for (const child of place.children) for (const id of child.nodes) of.set(id, child);
  const inner = new Map(), outer = new Map(), parameters = new Map();
  for (const child of place.children) {
    for (const id of child.nodes) {
      for (const input of list[id].ins) {
        const feeds = input.node ?? input.detached;
        if (feeds === null) continue;
        const from = of.get(feeds), source = list[feeds];
        if (from === child) continue;
        if (from) inner.set(from.key + ">" + child.key, [from, child, input.node === null]);
        else if (source.op === "leaf" && !isFused(place) && list === step.nodes)
          parameters.set(child, (parameters.get(child) || new Set()).add(source.name));
        else outer.set(source.id + ">" + child.key, [source, child]);
      }
    }
  }
  return { inner: [...inner.values()], outer: [...outer.values()], parameters };
}

function draw() {
  const map = $("map");
  map.replaceChildren();
  const { inner, outer, parameters } = edgesOf(here);
  const rank = new Map(here.children.map((child) => [child, 0]));
  for (const child of here.children) // children are in the order of the tape
    for (const [from, to] of inner) if (to === child) rank.set(child, Math.max(rank.get(child), rank.get(from) + 1));
  const rows = [];
  for (const child of here.children) (rows[rank.get(child)] ||= []).push(child);
  const boxes = new Map();
  const sources = new Map();
  for (const [source, to] of outer) sources.set(source.id, { source, to: [...(sources.get(source.id)?.to || []), to] });
  if (sources.size) {
    const row = make("div", { class: "rank" });
    for (const { source, to } of sources.values()) {
      const place = sourcePlace(source, here);
      const label = place ? place.key : source.name;
      const box = make("button", { class: "ghost", type: "button", title: "input from outside this group", onclick: () => place && go(place) }, `from ${label}`);
      row.append(box);
      boxes.set(source, box);
      to.forEach((child) => inner.push([source, child]));
    }
    map.append(row);
  }
  for (const row of rows) {
    const line = make("div", { class: "rank" });
    for (const child of row) {
      const box = boxOf(child, parameters.get(child));
      boxes.set(child, box);
      line.append(box);
    }
    map.append(line);
  }
  connect(map, boxes, inner);
  const trail = $("trail");
  trail.replaceChildren();
  for (let place = here; place; place = place.parent) {
    const button = make("button", { type: "button", onclick: () => enter(place) }, place.name);
    trail.prepend(...(place.parent ? ["▸ ", button] : [button]));
  }
}

/** Where a node is to be found that flows into what is inside a place. */
function sourcePlace(source, place) {
  const list = listInside(place);
  const found = placeOf.get(list)?.[source.id];
  if (found || list === step.nodes) return found;
  // A leaf of a definition is an input of the fused op.
  const fused = climb(place, isFused);
  const tracked = fused.node.ins.filter((input) => input.node !== null);
  const outerId = tracked[source.id]?.node;
  return outerId === undefined ? null : placeOf.get(fused.list)?.[outerId];
}

const climb = (place, test) => { while (place && !test(place)) place = place.parent; return place; };

function boxOf(place, parameters) {
  const node = outlet(place);
  const view = shows === "value" ? node.value : node.grad;
  const open = place.children.length > 0;
  const names = parameters ? [...parameters] : [];
  const chips = names.slice(0, 4).map((name) =>
    make("button", { type: "button", class: "chip", "data-parameter": name, title: name, onclick: () => go(places.get(name)) }, lastOf(name)));
  if (names.length > 4) chips.push(make("span", { class: "chip" }, `and ${names.length - 4} more`));
  const face = make("button", {
      type: "button", class: "face", "aria-label": `${place.key}${open ? ", can be opened" : ""}`,
      onclick: () => choose(place), ondblclick: () => open && enter(place), onfocus: () => chosen !== place && choose(place),
    },
    make("b", {}, parts(place.name)), make("span", { class: "open", title: open ? "Enter opens it" : null }, open ? "▸" : ""),
    make("span", { class: "shape" }, shapeOf(node.value)),
    thumbnail(view),
    make("span", { class: "norm" }, view ? `‖${shows === "value" ? "y" : "ȳ"}‖ = ${short(view.norm)}` : "no gradient"));
  const box = make("div", { class: place.node ? "box op" : "box group", "data-key": place.key }, face,
    chips.length ? make("div", { class: "chips" }, chips) : null);
  box.classList.toggle("chosen", place === chosen);
  return box;
}

/** A name that a line may break after its underscores. */
const parts = (name) => name.split(/(?<=_)/).flatMap((part) => [part, make("wbr")]);

const lastOf = (name) => name.split(".").slice(-2).join(".");

/** The line from below a box to above another, straight down beside what stands `between` them. */
function way(a, b, between) {
  const [y1, y2] = [a.bottom, b.top];
  const bend = (x1, y1, x2, y2) => `C${x1},${(y1 + y2) / 2} ${x2},${(y1 + y2) / 2} ${x2},${y2}`;
  if (!between.length) return `M${a.x},${y1} ${bend(a.x, y1, b.x, y2)}`;
  const hits = (x) => between.some((box) => box.left - 8 < x && x < box.right + 8);
  const sides = [Math.max(...between.map((box) => box.right)) + 16, Math.min(...between.map((box) => box.left)) - 16];
  const lane = [a.x, b.x, ...sides].filter((x) => !hits(x)).reduce((best, x) => (Math.abs(x - a.x) + Math.abs(x - b.x) < Math.abs(best - a.x) + Math.abs(best - b.x) ? x : best));
  const first = Math.min(...between.map((box) => box.top)), last = Math.max(...between.map((box) => box.bottom));
  return `M${a.x},${y1} ${bend(a.x, y1, lane, first)} L${lane},${last} ${bend(lane, last, b.x, y2)}`;
}

/** Lines between the boxes, behind them. */
function connect(map, boxes, edges) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("aria-hidden", "true");
  map.prepend(svg);
  const frame = map.getBoundingClientRect();
  const at = (box) => {
    const r = box.getBoundingClientRect();
    const left = r.left - frame.left;
    return { x: left + r.width / 2, left, right: left + r.width, top: r.top - frame.top, bottom: r.bottom - frame.top };
  };
  const all = [...boxes.values()].map(at);
  for (const [from, to, detached] of edges) {
    const a = at(boxes.get(from)), b = at(boxes.get(to));
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", way(a, b, all.filter((box) => box.top > a.top && box.bottom < b.bottom && box.bottom > a.bottom && box.top < b.top)));
    if (detached) path.setAttribute("class", "detached");
    svg.append(path);
  }
  svg.setAttribute("width", map.scrollWidth);
  svg.setAttribute("height", map.scrollHeight);
}

// ── The panel ───────────────────────────────────────────────────────────────────────────────────────────────────────

function facts(pairs) {
  return make("dl", { class: "facts" }, pairs.filter(([, value]) => value !== null && value !== "").map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

const link = (place, words) => make("button", { type: "button", class: "link", onclick: () => go(place) }, words ?? place.key);

/** A tensor that a node gave or was given: its figures, and slice by slice a heat map and its numbers. */
function tensor(view, node, title) {
  if (!view) return make("p", {}, "The loss does not depend on it.");
  const out = make("section", { class: "tensor" }, title ? make("h3", {}, title) : null);
  const summary = [["shape", shapeOf(view)], ["norm", exact(view.norm)], ["from … to", `${short(view.least)} … ${short(view.most)}`],
    ["mean", short(view.mean)], ["zeros", view.zeros ? count(view.zeros) : "none"], ["non-finite", view.odd ? count(view.odd) : null]];
  out.append(facts(summary));
  if (!view.slices.length) return out;
  const top = topOf(view);
  const body = make("div");
  const show = (index) => body.replaceChildren(...sliceOf(view, view.slices[index], top, node));
  if (view.of > 1) {
    const headed = view.shape.length === 4 && words(view, view.slices[0], 0, node) !== null;
    const select = make("select", { "aria-label": "slice", onchange: (event) => show(Number(event.target.value)) },
      view.slices.map((s, i) => make("option", { value: i }, headed ? `sequence ${s.at[0]}, head ${s.at[1]}` : `[${s.at.join(", ")}]`)));
    const left = view.of - view.slices.length;
    out.append(make("p", { class: "note" }, "slice ", select, left ? ` of ${count(view.of)}; ${count(left)} are not in this page` : ` of ${view.of}`));
  }
  out.append(body);
  show(0);
  return out;
}

const wordOf = new Map(step.tokens.rows); // by row of the tokens' embedding

/** What a row of a table is called: its token where it is one, else its number. */
const rowOf = (node, row) => (node.name === "tokens_embed.weight" && wordOf.has(row) ? `${wordOf.get(row)} (${row})` : row);

/** Words for the rows or columns of a slice of what a node gave, where they are positions of a sequence. */
function words(view, slice, axis, node) {
  const { sequences, inputs } = step.tokens;
  // (B, T, d) and (B, H, T, d) have positions in their rows, and (B, H, T, T) in both: other axes may have the same extents by chance.
  const length = inputs.length / sequences, rank = view.shape.length, [rows, cols] = slice.size;
  const scope = node.scope.split(".").at(-1);
  const square = ["scores", "mask", "softmax"].includes(scope) && node.op !== "permute" && cols === length;
  const heads = axis === 0 && (["q", "k", "v"].includes(scope) ? node.op === "permute" : node.op === "matmul");
  const positions = view.shape[0] === sequences && rows === length && (rank === 3 ? axis === 0 : rank === 4 && (square || heads));
  return positions ? inputs.slice((slice.at[0] ?? 0) * length).slice(0, length) : null;
}

/** What a column is called: c_attn makes queries, keys and values side by side. */
function colOf(node, col, cols) {
  if (!/attn\.c_attn\.(weight|bias)$/.test(node.name)) return col;
  return "qkv"[Math.floor(col / (cols / 3))] + (col % (cols / 3));
}

/** Which rows of a large tensor are given in numbers. */
function rowsOf(node, slice) {
  if (node.name !== "tokens_embed.weight") return "the corner";
  const left = wordOf.size - slice.rows.length;
  return `the first numbers of the tokens that are read or predicted${left ? `, of the first ${slice.rows.length} of ${wordOf.size}` : ""}`;
}

function sliceOf(view, slice, top, node) {
  const [rows, cols] = slice.size, whole = slice.corner === null;
  const rowWords = words(view, slice, 0, node), colWords = words(view, slice, 1, node);
  const canvas = make("canvas", { class: "heat", role: "img", "aria-label": `heat map, ${rows} by ${cols}` });
  paint(canvas, view, slice, top);
  const scale = Math.max(1, Math.min(18, Math.floor((rowWords ? 430 : 520) / slice.cells[1]), Math.floor(420 / slice.cells[0])));
  canvas.style.width = `${Math.max(slice.cells[1] * scale, 12)}px`;
  canvas.style.height = `${Math.max(slice.cells[0] * scale, 12)}px`;
  const readout = make("output", { class: "note" }, `−${short(top)} blue, 0 pale, ${short(top)} orange; a colour is as deep as the square root of the number`);
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const c = Math.floor((event.clientX - box.left) / box.width * slice.cells[1]), r = Math.floor((event.clientY - box.top) / box.height * slice.cells[0]);
    const value = numbersOf(view, slice)[r * slice.cells[1] + c];
    if (value === undefined) return;
    const name = (i, list) => (list ? `${i} “${list[i]}”` : i);
    readout.textContent = whole ? `[${name(r, rowWords)}, ${name(c, colWords)}] = ${exact(value)}` : `mean of a block: ${short(value)}`;
  });
  const labels = rowWords && scale >= 12 ? make("div", { class: "labels", style: `line-height: ${scale}px` }, rowWords.map((word) => make("span", {}, word))) : null;
  const out = [make("div", { class: "picture" }, labels, canvas), make("div", {}, readout)];
  if (!whole) out.push(make("p", { class: "note" }, `${count(rows)} × ${count(cols)} elements: the picture has means of blocks, the table ${rowsOf(node, slice)}.`));
  const height = whole ? Math.min(rows, 64) : slice.rows.length, width = Math.min(cols, whole ? 128 : 8);
  const numbers = whole ? slice.map : slice.corner, stride = whole ? cols : Math.min(cols, 8);
  const rowName = (r) => (whole ? (rowWords ? rowWords[r] : rowOf(node, r)) : rowWords ? rowWords[slice.rows[r]] : rowOf(node, slice.rows[r]));
  const head = make("tr", {}, make("th"), [...Array(width).keys()].map((c) => make("th", { scope: "col" }, colWords ? colWords[c] : colOf(node, c, cols))));
  const line = (r) => make("tr", {}, make("th", { scope: "row" }, rowName(r)),
    [...Array(width).keys()].map((c) => make("td", {}, exact(numbers[r * stride + c]))));
  out.push(make("div", { class: "numbers", tabindex: "0" }, make("table", {}, make("thead", {}, head), make("tbody", {}, [...Array(height).keys()].map(line)))));
  if (whole && (rows > height || cols > width)) out.push(make("p", { class: "note" }, `The first ${height} × ${width} of ${rows} × ${cols}; the picture has all.`));
  return out;
}

const TABS = [
  ["parameters", "Parameters", parameters],
  ["value", "Value", (place) => [tensor(outlet(place).value, outlet(place))]],
  ["gradient", "Gradient", (place) => [tensor(outlet(place).grad, outlet(place))]],
  ["from", "Where it came from", summands],
  ["inputs", "Inputs", inputs],
  ["update", "Update", update],
  ["proof", "Evidence", evidence],
];
let tab = "parameters";

function tabsOf(place) {
  const has = { parameters: place === root, value: true, gradient: true, from: true, inputs: place.node && !place.parameter, update: place.parameter, proof: place.node && !place.parameter };
  return TABS.filter(([name]) => has[name]);
}

/** Every parameter: its norm, its gradient's, what the update added, and the ops that its gradient came from. */
function parameters() {
  const of = placeOf.get(step.nodes);
  const rows = step.nodes.filter((node) => node.op === "leaf").map((node) => make("tr", {},
    make("th", { scope: "row" }, link(places.get(node.name)), make("div", { class: "note" }, shapeOf(node.value))),
    make("td", {}, short(node.value.norm)), make("td", {}, node.grad ? short(node.grad.norm) : "none"), make("td", {}, short(node.update.parts.find(([letter]) => letter === "Δθ")[1].norm)),
    make("td", {}, node.summands.map((s) => make("div", {}, link(of[s.from]))))));
  const heads = ["parameter", "‖θ‖", "‖θ̄‖", "‖Δθ‖", "θ̄ came from"];
  return [make("table", { class: "parameters" }, make("thead", {}, make("tr", {}, heads.map((h) => make("th", { scope: "col" }, h)))), make("tbody", {}, rows))];
}

/** ȳ summand by summand, each with the node that it came from. */
function summands(place) {
  const node = outlet(place);
  const of = placeOf.get(place.list);
  if (!node.summands.length) {
    const result = place.list === step.nodes ? "No op uses it: it is the loss, and its cotangent is 1." : "It is the result of the definition: its cotangent is that of the fused op.";
    const uses = place.list.filter((other) => other.ins.some((input) => input.detached === node.id)).map((other) => link(of[other.id]));
    const none = uses.length ? ["Held constant where it is used, so it has no gradient: ", uses] : ["It has no gradient."];
    return [make("p", {}, node.grad ? result : none.flat())];
  }
  const alone = node.summands.length === 1;
  return [
    make("p", { class: "note" }, alone ? "One op uses it; its cotangent is the result of that op's VJP." : `${node.summands.length} ops use it. Its cotangent is the sum of the results of their VJPs, in this order; inputs are counted from 0.`),
    ...node.summands.map((s, i) => make("section", { class: "summand" },
      make("h3", {}, `${i + 1}. from `, of[s.from] ? link(of[s.from]) : "the result", `, by its input ${s.input}`),
      tensor(s.view || node.grad, node))),
  ];
}

function inputs(place) {
  const of = placeOf.get(place.list);
  return place.node.ins.map((input, i) => {
    const feeds = input.node ?? input.detached;
    const source = feeds === null ? null : place.list[feeds];
    const from = source && (of[feeds] ?? sourcePlace(source, place.parent));
    const words = source === null ? "a constant" : from ? link(from) : "an input of the op";
    const held = input.node === null && source ? ", held constant" : null;
    return make("section", {}, make("h3", {}, `input ${i}: `, words, held), tensor(input.view || source.value, source ?? place.node));
  });
}

/** From θ̄ to Δθ: the optimizer's formulas, the numbers in them, and each tensor on the way. */
function update(place) {
  const { rule } = step, { parts, decay } = place.node.update;
  const still = place.node.grad ? [] : [make("p", {}, "The loss does not depend on it, and the optimizer does not change it.")];
  return [...still, make("p", { class: "note" }, `The form ${rule.name} of the optimizer, evaluated in this order; θ̄ is the gradient.`),
    make("p", { class: "math" }, rule.lines.map((line) => make("span", {}, line))),
    facts([...rule.numbers.map(([name, value]) => [name, exact(value)]), [decay ? "λ" : "λ, on biases and gains", exact(decay)]]),
    ...parts.map(([letter, view]) => tensor(view, place.node, letter))];
}

function evidence(place) {
  const node = place.node, op = step.ops[node.op];
  const out = [];
  if (node.proof) {
    const p = node.proof;
    out.push(make("h3", {}, "At these numbers"),
      make("p", {}, "The derivative of ⟨ȳ, f(x + hv)⟩ in h along a random direction v of length 1, by the VJP and by central differences. Their error is relative to Σ|x̄ᵢvᵢ| + Σ|ȳⱼyⱼ|, the sum of the absolute terms."),
      facts([["VJP, Σ⟨x̄, v⟩", exact(p.value)], [`differences, h = ${p.step.toExponential(0)}`, exact(p.expected)], ["relative error", p.error === null ? "non-finite" : p.error.toExponential(1)]]));
  } else out.push(make("p", {}, node.unproved ?? "No gradient flows through it."));
  if (op) {
    out.push(make("h3", {}, "The op"), make("p", {}, `The worst error of each witness on ${count(step.draws)} draws of its samples, relative to the terms that it adds; for taylor, the difference of the slope from 2:`),
      facts(op.evidence.map(([name, error]) => [name, error === null ? "nothing to compare" : error.toExponential(1)])),
      make("h3", {}, "Its derivation"), make("pre", {}, op.derivation), make("h3", {}, `Its VJP, ${op.file}:${op.line}`), make("pre", {}, op.vjp));
  }
  return out;
}

function cost(place) {
  const nodes = place.parameter ? [] : place.nodes.map((id) => place.list[id]);
  const sum = (of) => nodes.reduce((total, node) => total + of(node), 0);
  return { flops: sum((n) => n.flops), saved: sum((n) => n.saved), forward: sum((n) => n.forward), backward: sum((n) => n.backward), ops: nodes.length };
}

function panel() {
  const place = chosen, node = place.node, out = $("panel");
  const c = cost(place);
  const op = node && step.ops[node.op];
  const title = place === root ? step.title : place.key;
  const heading = make("h2", { id: "chosen" }, title);
  const kind = place.parameter ? "a parameter" : node ? `the op ${node.op}${isFused(place) ? ", fused: Enter opens its definition" : ""}` : `${c.ops} ops`;
  const about = [make("p", { class: "note" }, kind)];
  if (op) about.push(make("p", { class: "math" }, ...op.math.split(";").map((part) => make("span", {}, part.trim()))));
  const shown = node && !place.parameter ? `${node.ins.map((i) => `(${i.shape.join(", ")})`).join(", ")} → ${shapeOf(node.value)}` : null;
  about.push(facts([
    ["shapes", shown], ["applied in", node && !place.parameter ? node.at : null], ["with", node && node.details.includes("{") ? node.details : null],
    ["FLOPs", place.parameter ? null : count(c.flops)], ["kept for backward", place.parameter ? null : bytes(c.saved)],
    ["forward, backward", place.parameter ? null : `${seconds(c.forward)}, ${seconds(c.backward)}`], ["not opened", node ? node.closed : null]]));
  const available = tabsOf(place);
  const active = available.some(([name]) => name === tab) ? tab : available[0][0];
  const bar = make("div", { role: "tablist", class: "tabs" }, available.map(([name, words], i) =>
    make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-selected": String(name === active), "aria-controls": "tab",
      tabindex: name === active ? "0" : "-1", title: `key ${i + 1}`, onclick: () => turn(name) }, words)));
  const [, , body] = TABS.find(([name]) => name === active);
  out.replaceChildren(heading, ...about, bar, make("div", { role: "tabpanel", id: "tab", "aria-labelledby": `tab-${active}` }, body(place)));
}

/** Shows a tab; the focus stays on the tabs if it was there. */
function turn(name) {
  const among = document.activeElement.closest(".tabs");
  tab = name;
  panel();
  if (among) $(`tab-${name}`).focus();
}

/** The tab to the left or to the right, around. */
function turnBy(by) {
  const names = [...document.querySelectorAll(".tabs [role=tab]")].map((button) => button.id.slice("tab-".length));
  const now = names.findIndex((name) => $(`tab-${name}`).getAttribute("aria-selected") === "true");
  turn(names[(now + by + names.length) % names.length]);
}

// ── Going about ─────────────────────────────────────────────────────────────────────────────────────────────────────

function choose(place) {
  chosen = place;
  for (const box of document.querySelectorAll("#map .box")) box.classList.toggle("chosen", box.dataset.key === place.key);
  for (const chip of document.querySelectorAll("#map .chip")) chip.classList.toggle("chosen", chip.dataset.parameter === place.key);
  history.replaceState(null, "", "#" + encodeURIComponent(place.key));
  panel();
}

const faceOf = (key) => document.querySelector(`#map [data-key="${CSS.escape(key)}"] .face`);

/** Draws the map anew; the focus stays where it was. */
function redraw() {
  const box = document.activeElement?.closest("#map .box"), before = chosen;
  draw();
  if (box) faceOf(box.dataset.key)?.focus();
  if (chosen !== before) choose(before); // a box that has the focus is chosen
}

/** Shows the inside of a place. */
function enter(place, select = null) {
  if (!place.children.length) return choose(place);
  here = place;
  chosen = select || place;
  draw();
  choose(chosen);
  const face = select && faceOf(select.key);
  (face || document.querySelector("#map .face"))?.focus({ preventScroll: !face });
  if (!select) choose(place);
}

/** Shows a place where it stands. */
function go(place) {
  if (place === root) { if (here !== root) enter(root); return choose(root); }
  if (!place.parameter) return enter(place.parent, place);
  // Beside the op that reads it, the first of several.
  const reader = placeOf.get(step.nodes).find((other) => other && !other.parameter && other.node.ins.some((input) => input.node === place.node.id));
  if (reader && here !== reader.parent) enter(reader.parent, reader);
  choose(place);
  [...document.querySelectorAll("#map .chip")].find((chip) => chip.dataset.parameter === place.key)?.focus({ preventScroll: true });
}

function leave() {
  if (here.parent) enter(here.parent, here);
  else choose(root);
}

/** The next box in a direction: the nearest whose middle lies that way. */
function move(dx, dy) {
  const boxes = [...document.querySelectorAll("#map .box")];
  const now = document.activeElement?.closest?.("#map .box") || boxes[0];
  const middle = (box) => { const r = box.getBoundingClientRect(); return [r.left + r.width / 2, r.top + r.height / 2]; };
  const [x, y] = middle(now);
  const far = (box) => {
    const [u, v] = middle(box), along = (u - x) * dx + (v - y) * dy, across = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
    return along > 4 ? along + 2 * across : Infinity;
  };
  const next = boxes.reduce((best, box) => (far(box) < far(best) ? box : best), now);
  next.querySelector(".face").focus();
}

const found = () => {
  const wanted = $("find").value.trim().toLowerCase();
  return wanted ? [...places.values()].filter((place) => place !== root && place.key.toLowerCase().includes(wanted)) : [];
};

function find() {
  const all = found();
  $("hits").replaceChildren(...all.slice(0, 12).map((place) => make("li", {}, make("button", { type: "button", class: "link", onclick: () => { $("find").value = ""; find(); go(place); } }, place.key))));
  if (!all.length && $("find").value.trim()) $("hits").append(make("li", { class: "note" }, "no node has this name"));
  if (all.length > 12) $("hits").append(make("li", { class: "note" }, `and ${all.length - 12} more`));
}

$("find").addEventListener("input", find);
$("find").addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    const wanted = $("find").value.trim(), first = places.get(wanted) || found()[0];
    if (first) { $("find").value = ""; find(); $("find").blur(); go(first); }
  } else if (event.key === "Escape") { $("find").value = ""; find(); $("find").blur(); }
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select")) return;
  const arrows = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const scrolls = event.target.closest(".numbers"), tabs = event.target.closest(".tabs");
  if (arrows[event.key] && tabs) turnBy(arrows[event.key][0]);
  else if (arrows[event.key] && !scrolls) move(...arrows[event.key]);
  else if (event.key === "Enter" && event.target.closest("#map .face")) enter(places.get(event.target.closest(".box").dataset.key));
  else if (event.key === "Escape" || event.key === "Backspace") leave();
  else if (event.key === "/") $("find").focus();
  else if (event.key === "g") toggle();
  else if (/^[1-6]$/.test(event.key) && tabsOf(chosen)[event.key - 1]) turn(tabsOf(chosen)[event.key - 1][0]);
  else return;
  event.preventDefault();
});

function toggle() {
  shows = shows === "value" ? "gradient" : "value";
  $("shows").textContent = shows === "value" ? "values" : "gradients";
  $("shows").setAttribute("aria-pressed", String(shows === "gradient"));
  redraw();
}

$("shows").addEventListener("click", toggle);
addEventListener("resize", redraw);
dark.addEventListener("change", () => { redraw(); panel(); });
/** The place that the address names, if it is one. */
function placeOfHash() {
  try { return places.get(decodeURIComponent(location.hash.slice(1))); } catch { return undefined; }
}
addEventListener("hashchange", () => { const place = placeOfHash(); if (place && place !== chosen) go(place); });

const asked = placeOfHash();
enter(root);
if (asked && asked !== root) go(asked);
else if (!asked && location.hash.length > 1) { $("find").value = location.hash.slice(1); find(); } // no such place: list similar ones
document.documentElement.dataset.ready = "yes";
