// Draws what the simulator has played, and asks it to play again after each change.

const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const clients = ["A", "B", "C"];
const length = 90000;
const number = new Intl.NumberFormat("en");
const seconds = (ms) => `${(ms / 1000).toFixed(1)} s`;

// The faults: what they are called, what they do, how long they last, and where they can happen.
const kinds = {
  pause: {name: "Pause", about: "a garbage collection, SIGSTOP", lasts: 35000, on: "clients", past: "is paused"},
  answer: {name: "Lost answers", about: "requests work, answers are lost", lasts: 3000, on: "clients", past: "gets no answers"},
  request: {name: "Lost messages", about: "requests do not arrive", lasts: 3000, on: "clients", past: "loses its requests"},
  slow: {name: "Slow link", about: "2 s more in each direction", lasts: 20000, on: "clients", past: "has a slow link"},
  cut: {name: "Cut off", about: "nothing arrives", lasts: 35000, on: "both", past: "is cut off"},
  clock: {name: "Clock step", about: "half a minute ahead", lasts: 31000, on: "both", past: "has its clock stepped"},
  failover: {name: "Fail-over", about: "the server loses its data", lasts: 0, on: "servers", past: "fails over"},
  crash: {name: "Crash", about: "the client ends", lasts: 0, on: "clients", past: "crashes"},
};
const instant = (kind) => kind === "failover" || kind === "crash" || kind === "clock";

let protocols = [], protocol, faults = [], chosen = -1; // the plan, and the fault that is edited
let played;                                             // the latest result
let head = length, motion = 0;                          // the time that is shown, and its animation
let asks = 0, asked = 0, searching = false, searchFor = 30, searchFrom = 1, searched = 0;

// ---- the simulator ----

const worker = new Worker("worker.js");
worker.onerror = () => failed("The simulator does not load.");
worker.onmessage = (e) => {
  const a = JSON.parse(e.data);
  if (a.error) return failed(a.error);
  if (a.protocols) return begin(a.protocols);
  if (a.search && a.id === searched) return found(a.search);
  if (a.played && a.id === asked) show(a.played);
};

function failed(why) {
  $("link").textContent = "stopped";
  $("link").className = "chip stalled";
  verdict(why, "broken");
}

const plan = () => ({protocol: protocol.name, faults});

// A new schedule replaces the search: its end would replace the schedule, and the simulator does one thing at a time.
let moving = false; // the next result is played from its start

function clearDrawing() {
  for (const id of ["lanes", "chips", "log"]) $(id).replaceChildren();
  $("lanes").removeAttribute("aria-label");
}

function play(animated) {
  stopSearch();
  moving = animated && !still.matches;
  remember();
  pause();
  $("stage").ariaBusy = "true";
  if (played?.protocol !== protocol.name) { played = undefined; clearDrawing(); }
  verdict("The simulator plays this schedule.", ""); // what is drawn until then is another one
  asked = ++asks;
  worker.postMessage({id: asked, do: "play", plan: plan()});
}

// ---- the address ----

function remember() {
  const text = faults.map((f) => [f.kind, f.on, f.at, f.for].join(".")).join("~");
  const hash = `#lock=${protocol.name}${text ? `&faults=${text}` : ""}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  $("address").href = hash;
}

function recall() {
  const from = new URLSearchParams(location.hash.slice(1));
  searchFor = Number(from.get("search")) || 30;
  searchFrom = Number(from.get("seed")) || 1 + Math.floor(Math.random() * 1e9);
  protocol = protocols.find((p) => p.name === from.get("lock")) || protocols.find((p) => p.name === "token");
  faults = (from.get("faults") || "").split("~").filter(Boolean).map((text) => {
    const [kind, on, at, lasts] = text.split(".");
    return {kind, on, at: Number(at), for: Number(lasts)};
  }).filter((f) => kinds[f.kind] && places(f.kind).includes(f.on) && Number.isInteger(f.at) && Number.isInteger(f.for));
  return from.has("faults");
}

function begin(all) {
  protocols = all;
  const given = recall();
  $("link").textContent = "runs in your browser";
  $("link").className = "chip live";
  $("locks").replaceChildren(...protocols.map((p) => {
    const b = element("button", {type: "button"}, element("b", {}, p.title));
    b.dataset.lock = p.name;
    b.onclick = () => { choose(p.name); play(false); };
    return b;
  }));
  $("faults").replaceChildren(...Object.entries(kinds).map(([kind, k]) => {
    const b = element("button", {type: "button"}, element("b", {}, k.name), element("span", {}, k.about));
    b.dataset.kind = kind;
    b.onpointerdown = (e) => dragNew(e, kind);
    b.onclick = (e) => { if (e.detail === 0 || !dragged) add(kind); };
    return b;
  }));
  for (const id of ["break", "search", "clear", "run", "head"]) $(id).disabled = false;
  choose(protocol.name);
  if (!given && protocol.known && !location.hash.includes("lock=")) faults = structuredClone(protocol.known);
  play(true);
}

addEventListener("hashchange", () => { recall(); choose(protocol.name); play(true); });

function choose(name) {
  stopSearch();
  protocol = protocols.find((p) => p.name === name);
  faults = faults.filter((f) => places(f.kind).includes(f.on));
  chosen = -1;
  for (const b of $("locks").children) b.setAttribute("aria-pressed", b.dataset.lock === name);
  $("about").textContent = protocol.about;
  $("now").textContent = protocol.title;
  $("break").disabled = !protocol.known;
  $("break").firstChild.textContent = protocol.known ? "Show me how it breaks" : "No schedule is known that breaks it";
  $("searched").textContent = "";
}

// ---- the buttons ----

$("break").onclick = () => { faults = structuredClone(protocol.known); chosen = -1; play(true); };
$("clear").onclick = () => { faults = []; chosen = -1; play(false); };
$("search").onclick = () => {
  if (searching) { worker.postMessage({id: 0, do: "stop"}); return; }
  searching = true;
  searched = ++asks;
  $("search").setAttribute("aria-pressed", "true");
  $("search").firstChild.textContent = "Stop the search";
  worker.postMessage({id: searched, do: "search", plan: {protocol: protocol.name, faults: []}, seconds: searchFor, seed: searchFrom});
};

// stopSearch ends the search for another schedule: what it still says is not shown.
function stopSearch() {
  if (!searching) return;
  worker.postMessage({id: 0, do: "stop"});
  searched = -1;
  $("searched").textContent = "The search was stopped.";
  endSearch();
}

function endSearch() {
  searching = false;
  $("search").setAttribute("aria-pressed", "false");
  $("search").firstChild.textContent = "Search for a way";
}

function found(s) {
  const tried = `${number.format(s.schedules)} schedule${s.schedules === 1 ? "" : "s"} with ${number.format(s.faults)} faults tried in ${seconds(s.ms)}`;
  const out = $("searched");
  if (s.broken) out.textContent = `${tried}: the last one breaks it, and is shown below.`;
  else out.textContent = `${tried}: no promise was broken${s.done ? "." : " so far."}`;
  if (s.late && !s.broken) {
    out.append(` In ${number.format(s.late)} of them a write came too late: it was on its way when the lock was lost. Fencing refuses such writes. `);
    if (s.done) {
      const b = element("button", {type: "button"}, "Show one");
      b.onclick = () => { faults = s.latePlan.faults; play(true); };
      out.append(b);
    }
  }
  if (!s.done) return;
  searchFrom += s.schedules;
  endSearch();
  if (s.broken) { faults = s.broken.faults; chosen = -1; play(true); }
}

// ---- faults ----

const servers = () => protocol.servers === 1 ? ["redis"] : ["redis1", "redis2", "redis3"];
const places = (kind) => ({clients, servers: servers(), both: [...clients, ...servers()]})[kinds[kind].on];

function add(kind, on = places(kind)[0], at = 10000) {
  faults.push({kind, on, at, for: kinds[kind].lasts});
  chosen = faults.length - 1;
  play(false);
}

function change(i, to) {
  const f = {...faults[i], ...to};
  f.at = Math.round(Math.max(0, Math.min(length, f.at)) / 100) * 100;
  f.for = instant(f.kind) ? f.for : Math.round(Math.max(100, Math.min(length - f.at, f.for)) / 100) * 100;
  if (!places(f.kind).includes(f.on)) f.on = faults[i].on;
  chosen = i;
  faults[i] = f;
  draw();
  play(false);
}

function remove(i) {
  faults.splice(i, 1);
  chosen = -1;
  play(false);
}

let dragged = false; // the last press became a drag

// dragNew drags a fault from its button onto a time line.
function dragNew(e, kind) {
  dragged = false;
  const ghost = element("div", {className: "ghost"}, kinds[kind].name);
  follow(e, (x, y, far) => {
    if (!far) return;
    dragged = true;
    if (!ghost.isConnected) document.body.append(ghost);
    ghost.style.left = `${x + 8}px`;
    ghost.style.top = `${y + 8}px`;
  }, (x, y) => {
    ghost.remove();
    if (!dragged) return;
    const on = laneAt(y);
    if (on && places(kind).includes(on)) add(kind, on, Math.max(0, Math.round(timeAt(x) / 100) * 100));
  });
}

// dragChip moves a fault, or changes its length by its end.
function dragChip(e, i) {
  const f = {...faults[i]}, atEnd = !instant(f.kind) && e.offsetX > e.currentTarget.clientWidth - 10, from = timeAt(e.clientX);
  chosen = i;
  follow(e, (x, y, far) => {
    if (!far) return;
    const by = timeAt(x) - from;
    if (atEnd) change(i, {for: f.for + by});
    else change(i, {at: f.at + by, on: laneAt(y) || f.on});
  }, () => { draw(); });
}

function follow(e, move, end) {
  const x = e.clientX, y = e.clientY, stop = new AbortController(), on = {signal: stop.signal};
  addEventListener("pointermove", (m) => move(m.clientX, m.clientY, Math.hypot(m.clientX - x, m.clientY - y) > 4), on);
  for (const name of ["pointerup", "pointercancel"]) addEventListener(name, (m) => { stop.abort(); end(m.clientX, m.clientY); }, on);
}

function press(e, i) {
  const f = faults[i], step = (e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0) * 1000;
  const all = places(f.kind), down = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
  if (step && e.shiftKey) change(i, {for: f.for + step});
  else if (step) change(i, {at: f.at + step});
  else if (down) change(i, {on: all[Math.max(0, Math.min(all.length - 1, all.indexOf(f.on) + down))]});
  else if (e.key === "Delete" || e.key === "Backspace") remove(i);
  else return;
  e.preventDefault();
}

function edit() {
  const f = faults[chosen];
  $("edit").hidden = !f;
  if (!f) return;
  $("edit-on").replaceChildren(...places(f.kind).map((on) => element("option", {value: on, selected: on === f.on}, `${kinds[f.kind].name} of ${on}`)));
  if (document.activeElement !== $("edit-at")) $("edit-at").value = f.at / 1000;
  if (document.activeElement !== $("edit-for")) $("edit-for").value = f.for / 1000;
  $("edit-what").textContent = f.kind === "clock" ? "by" : "lasts";
  $("edit-for").closest("label").hidden = f.kind === "crash" || f.kind === "failover";
}
$("edit").onsubmit = (e) => e.preventDefault();
$("edit-on").onchange = (e) => change(chosen, {on: e.target.value});
$("edit-at").onchange = (e) => change(chosen, {at: 1000 * e.target.value});
$("edit-for").onchange = (e) => change(chosen, {for: Math.round(1000 * e.target.value)});
$("edit-remove").onclick = () => remove(chosen);

// ---- time ----

$("head").oninput = (e) => { pause(); head = Number(e.target.value); draw(); };
$("run").onclick = () => motion ? pause() : animate();

function pause() {
  cancelAnimationFrame(motion);
  motion = 0;
  $("run").textContent = "▶";
  $("run").ariaLabel = "Play from the start";
}

function animate() {
  pause();
  const began = performance.now();
  $("run").textContent = "❚❚";
  $("run").ariaLabel = "Pause";
  const frame = (now) => {
    head = Math.min(length, (now - began) * 9);
    motion = head < length ? requestAnimationFrame(frame) : 0;
    if (!motion) pause();
    draw();
  };
  motion = requestAnimationFrame(frame);
}

function show(result) {
  played = {...result, protocol: protocol.name};
  $("stage").ariaBusy = "false";
  if (moving) return animate();
  pause();
  head = length;
  draw();
}

// ---- words ----

function verdict(text, kind) {
  if ($("verdict").textContent !== text) $("verdict").textContent = text;
  $("verdict").className = `verdict ${kind}`;
}

const isKnown = () => protocol.known && JSON.stringify(faults) === JSON.stringify(protocol.known);

function tell() {
  const bad = played.violations.filter((v) => Math.min(v.at, length) <= head); // a lock is found stuck after the end
  const of = (kind) => bad.find((v) => v.kind === kind);
  const writes = played.writes.filter((w) => w.at <= head), refused = writes.filter((w) => !w.accepted).length, wrong = writes.filter((w) => w.wrong).length;
  const count = `${number.format(writes.length)} writes so far${refused ? `, ${refused} refused by ${refused === 1 ? "its token" : "their tokens"}` : ""}`;
  if (!bad.length) {
    return verdict(`At most one client believes that it holds the lock. ${count}${head < length ? "." : ", none of them wrong."}`, "");
  }
  const says = [];
  if (of("two")) says.push(`From ${seconds(of("two").at)}: ${of("two").text}.`);
  if (wrong) says.push(`${wrong} write${wrong === 1 ? "" : "s"} came too late and harmed the work of the client that got the lock after.`);
  if (of("stuck")) says.push("Nobody holds the lock, and nobody can ever get it.");
  if (refused) says.push(`${refused} late write${refused === 1 ? " was" : "s were"} refused by ${refused === 1 ? "its token" : "their tokens"}.`);
  if (isKnown() && head >= length) says.push(protocol.story); // it ends with the end of the schedule
  else if (protocol.ours) says.push("A lease cannot prevent this: the lock was lost at the server, or a write was on its way. The token protects the resource.");
  verdict(says.join(" "), protocol.fenced && !wrong && !of("stuck") ? "warn" : "broken");
}

function steps() {
  const all = [];
  for (const m of played.messages) {
    const fate = m.at < 0 ? "lost on its way" : m.back < 0 ? `${m.answer} (the answer is lost)` : m.answer;
    all.push({at: m.sent, who: m.from, text: `${m.to === "redis" ? "" : `${m.to}: `}${m.text} → ${fate}`});
  }
  for (const w of played.writes) all.push({at: w.at, who: w.who, text: `writes${w.token ? ` with token ${w.token}` : ""}: ${w.accepted ? w.wrong ? "taken, too late" : "taken" : "refused"}`, bad: w.wrong});
  for (const v of played.violations) all.push({at: v.at, who: "", text: v.text, bad: true});
  for (const f of faults) all.push({at: f.at, who: f.on, text: kinds[f.kind].past});
  all.sort((a, b) => a.at - b.at);
  $("log").replaceChildren(...all.slice(0, 600).map((s) => element("li", {className: s.bad ? "bad" : ""}, element("time", {}, seconds(s.at)), element("span", {}, s.who), element("span", {}, s.text))));
}

// ---- the time lines ----

const left = 74, right = 10, top = 20, high = 58;
let width = 600, logged;
const x = (at) => left + (width - left - right) * at / length;
const timeAt = (px) => (px - $("stage").getBoundingClientRect().left - left) / (width - left - right) * length;
const rows = () => [...clients, ...servers(), "resource"];
function laneAt(py) {
  const i = Math.floor((py - $("stage").getBoundingClientRect().top - top) / high);
  return rows()[i] === "resource" ? undefined : rows()[i];
}

function draw() {
  if (!played) return;
  const busy = $("stage").ariaBusy === "true";
  const svg = $("lanes"), names = rows(), out = [];
  width = $("stage").clientWidth;
  const height = top + names.length * high + 6, bottom = height - 6;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("height", height);
  for (let s = 0; s <= 90; s += 10) {
    out.push(line(x(s * 1000), top, x(s * 1000), bottom, "grid"));
    if (s % (width < 500 ? 30 : 10) === 0) out.push(words(x(s * 1000), 12, `${s} s`, "soft", s === 90 ? "end" : "middle"));
  }
  const y = Object.fromEntries(names.map((n, i) => [n, top + i * high]));
  for (const n of names) {
    out.push(line(left, y[n] + 43, width - right, y[n] + 43, "rail"));
    out.push(words(0, y[n] + 38, clients.includes(n) ? `client ${n}` : n, "label"));
  }
  for (const m of played.messages) {
    if (!(m.from in y && m.to in y)) continue;
    const from = y[m.from] + 43, to = y[m.to] + 26, colour = `message ${m.from}-line`;
    if (m.at < 0) {
      const mid = (from + to) / 2;
      out.push(line(x(m.sent), from, x(m.sent), mid, "message gone"), cross(x(m.sent), mid, 3.5, "cross"));
      continue;
    }
    out.push(line(x(m.sent), from, x(m.at), to, colour));
    if (m.back >= 0) out.push(line(x(m.at), to, x(m.back), from, colour));
    else out.push(line(x(m.at), to, x(m.at), (from + to) / 2, "message gone"), cross(x(m.at), (from + to) / 2, 3.5, "cross"));
  }
  for (const l of played.lanes || []) for (const s of l.spans || []) {
    const wide = Math.max(1.5, x(s.to) - x(s.from)), at = y[l.name];
    if (s.state === "waits") out.push(line(x(s.from), at + 37, x(s.to), at + 37, `waits ${l.name}-line`));
    else out.push(`<rect x="${x(s.from)}" y="${at + 27}" width="${wide}" height="16" rx="3" class="${s.state === "holds" ? l.name : s.state}"/>`);
    const label = s.state === "holds" ? ["believes that it has the lock", "believes", ""] : s.state === "crashed" ? ["crashed", "", ""] : s.state === "waits" ? ["", "", ""] : [`has the lock for ${s.state}`, `for ${s.state}`, s.state];
    const fits = label.find((t) => t.length * 6 + 8 < wide);
    if (fits) out.push(words(x(s.from) + 5, at + 39, fits, "word"));
  }
  for (const w of played.writes) {
    const at = y.resource + 35;
    if (w.accepted) out.push(`<circle cx="${x(w.at)}" cy="${at}" r="3.6" class="write ${w.who}"/>`);
    else out.push(cross(x(w.at), at, 4, "cross refused"));
    if (w.wrong) out.push(`<circle cx="${x(w.at)}" cy="${at}" r="7" class="ring"/>`);
  }
  const bad = played.violations.filter((v) => v.at <= head && v.kind !== "stuck");
  for (const v of bad.slice(0, 1)) {
    out.push(line(x(v.at), top, x(v.at), bottom, "bad-line"));
    const after = x(v.at) < width * .6;
    out.push(words(x(v.at) + (after ? 4 : -4), y.resource + 16, v.kind === "two" ? "two at once" : "too late", "bad-text halo", after ? "start" : "end"));
  }
  if (head < length) out.push(`<rect x="${x(head)}" y="${top - 2}" width="${width - x(head)}" height="${bottom - top + 4}" class="veil"/>`, line(x(head), top - 4, x(head), bottom, "head"));
  svg.innerHTML = out.join("");
  chips(y);
  if (!busy) tell();
  if (logged !== played) { logged = played; steps(); svg.setAttribute("aria-label", described()); }
  edit();
  $("head").value = head;
  $("clock").textContent = seconds(head);
}

// described is the picture in words.
function described() {
  const of = (played.lanes || []).map((l) => `${l.name}: ${(l.spans || []).filter((s) => s.state !== "waits").slice(0, 6).map((s) => `${s.state === "holds" || s.state === "crashed" ? s.state : `has the lock for ${s.state}`} from ${seconds(s.from)} to ${seconds(s.to)}`).join(", ") || "nothing"}`);
  return `Time lines. ${of.join(". ")}.`;
}

// chips draws the faults as buttons over the time lines. Those that overlap move to the left a little less.
function chips(y) {
  const box = $("chips"), focused = box.contains(document.activeElement) ? Number(document.activeElement.dataset.i) : -1;
  while (box.children.length > faults.length) box.lastChild.remove();
  while (box.children.length < faults.length) {
    const b = element("button", {type: "button"});
    b.onpointerdown = (e) => dragChip(e, Number(b.dataset.i));
    b.onkeydown = (e) => press(e, Number(b.dataset.i));
    b.onfocus = b.onclick = () => { if (chosen !== Number(b.dataset.i)) { chosen = Number(b.dataset.i); draw(); } };
    box.append(b);
  }
  faults.forEach((f, i) => {
    const b = box.children[i], k = kinds[f.kind], lasts = instant(f.kind) ? 0 : f.for;
    b.dataset.i = i;
    b.className = `${i === chosen ? "chosen" : ""} ${instant(f.kind) ? "instant" : ""}`;
    const wide = Math.min(Math.max(instant(f.kind) ? 8 * k.name.length + 10 : 26, x(Math.min(length, f.at + lasts)) - x(f.at)), width - 30);
    b.style.left = `${Math.min(x(f.at), width - wide)}px`;
    b.style.top = `${y[f.on] + 1}px`;
    b.style.width = `${wide}px`;
    b.textContent = k.name;
    b.ariaLabel = `${k.name} of ${f.on} at ${seconds(f.at)}${f.kind === "clock" ? ` by ${seconds(f.for)}` : instant(f.kind) ? "" : `, ${seconds(f.for)} long`}`;
  });
  if (focused >= 0 && focused < faults.length) box.children[focused].focus();
}

const line = (x1, y1, x2, y2, c) => `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" class="${c}"/>`;
const cross = (cx, cy, r, c) => `<path d="M${cx - r} ${cy - r}L${cx + r} ${cy + r}M${cx - r} ${cy + r}L${cx + r} ${cy - r}" class="${c}"/>`;
const words = (px, py, text, c, anchor = "start") => `<text x="${px}" y="${py}" class="${c}" text-anchor="${anchor}">${text.replace(/[&<]/g, (ch) => ch === "&" ? "&amp;" : "&lt;")}</text>`;

function element(name, properties, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

new ResizeObserver(() => draw()).observe($("stage"));
