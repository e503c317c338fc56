// Draws the frames that the demo sends. A frame is measured by the process; this file adds up nothing
// but what the frames say.

const $ = (id) => document.getElementById(id);
const still = matchMedia("(prefers-reduced-motion: reduce)");
const dark = matchMedia("(prefers-color-scheme: dark)");
const number = new Intl.NumberFormat("en");
const plural = (n, one) => `${number.format(n)} ${n === 1 ? one : one + "s"}`;
const ms = (x) => x < 1 ? `${Math.round(x * 1000)} µs` : x < 10 ? `${x.toFixed(1)} ms` : x < 1000 ? `${Math.round(x)} ms` : `${x % 1000 ? (x / 1000).toFixed(x % 100 ? 2 : 1) : x / 1000} s`;

let hello, frame, before; // the run, the latest frame and the one before
let received = 0;         // when it came, on the clock of performance.now
let columns = [], marks = new Map(), holds = [], rivals = [], leases = [];
let colours = {};

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["text", "soft", "line", "faint", "hold", "hold-soft", "store", "store-soft", "rival", "loss", "heat", "card"]) colours[name] = style.getPropertyValue("--" + name).trim();
}

// connect reads the events. The browser comes back by itself after a loss of the connection.
function connect() {
  const source = new EventSource("events");
  source.onmessage = (e) => take(JSON.parse(e.data));
  source.onerror = () => { if (source.readyState === EventSource.CLOSED) setTimeout(connect, 2000); };
}

function take(f) {
  if (f.hello) {
    hello = f.hello;
    columns = []; marks.clear(); holds = []; rivals = []; leases = [];
    introduce();
  }
  if (!hello) return;
  for (const c of f.columns || []) if (!columns.some((x) => x.at === c.at)) columns.push(c);
  columns = columns.slice(-120);
  before = frame; frame = f; received = performance.now();
  for (const m of f.marks || []) {
    const id = m.what + m.at;
    if (marks.has(id)) continue;
    marks.set(id, m);
    follow(m);
  }
  const lease = leases.at(-1), e = f.episode;
  if (lease && !lease.closed) {
    lease.to = f.end;
    if (e && e.began > lease.from && (e.fault === "steal" || e.fault === "forget")) { lease.to = Math.min(lease.to, e.began); lease.closed = true; }
  }
  show();
}

// follow keeps the time lines of the watched lock.
function follow(m) {
  switch (m.what) {
    case "has":
      holds.push({from: m.at, token: m.token});
      leases.push({from: m.at, to: m.at});
      break;
    case "told":
      if (holds.length) { // after a pause the lock was not valid any more long before
        holds.at(-1).to = m.at;
        holds.at(-1).valid = Math.min(m.at, before?.deadline || m.at);
      }
      break;
    case "rival waits":
      rivals.push({waits: m.at});
      break;
    case "rival has":
      if (rivals.length) { rivals.at(-1).has = m.at; rivals.at(-1).token = m.token; }
      if (leases.length) { leases.at(-1).to = Math.min(leases.at(-1).to, m.at); leases.at(-1).closed = true; }
      break;
    case "rival gone":
      if (rivals.length) rivals.at(-1).to = m.at;
      break;
  }
  holds = holds.slice(-8); rivals = rivals.slice(-8); leases = leases.slice(-8);
}

function introduce() {
  $("lead").textContent = `You watch a running process. It holds ${plural(hello.leases, "lock")} on ${hello.store}. Each is a lease of ${ms(hello.ttl)}, renewed every ${ms(hello.ttl / 3)}. If a lease can no longer be relied on, its holder is told while nobody else can have the lock yet. Break something and see.`;
  $("lane-note").textContent = `The rival is ${hello.processes ? "another process" : "another client"} that waits for the same lock. The dashed parts are ahead of now: the store keeps the lease up to the blue end, and the holder is told at the red line unless a renewal moves it.`;
  $("engine-title").textContent = hello.engine === "heap" ? "The heap: what is due first" : "The timing wheel";
  for (const b of document.querySelectorAll("[data-fault]")) {
    const why = hello.unavailable[b.dataset.fault];
    if (why) b.querySelector("span").textContent = why;
    if (b.dataset.fault === "steal") b.querySelector("b").textContent = `Steal ${hello.steal === 10 ? "ten" : hello.steal} keys`;
  }
}

// ---- words and numbers ----

function show() {
  const f = frame, c = columns.at(-1);
  text("held", number.format(f.held));
  text("lost", number.format(f.lost));
  text("goroutines", number.format(f.goroutines));
  if (c) {
    const lately = columns.slice(-4); // two seconds: renewals come in groups
    text("rate", number.format(Math.round(lately.reduce((sum, x) => sum + x.rate, 0) / lately.length)));
    text("batch", number.format(c.batch)); text("p99", ms(c.p99));
  }
  for (const b of document.querySelectorAll("[data-fault]")) {
    const fault = b.dataset.fault, active = f.active === fault, lasts = fault === "hang";
    b.disabled = !!hello.unavailable[fault] || (f.active !== "" && !(active && lasts));
    b.classList.toggle("active", active);
    if (lasts) {
      b.setAttribute("aria-pressed", active);
      b.querySelector("b").textContent = active ? "Let it answer again" : "Hang the store";
    }
  }
  const [words, kind] = verdict(f);
  text("verdict", words);
  $("verdict").className = "verdict " + kind;
  const plain = words.replace(/[\d.,]+ ?(µs|ms|s)?/g, "");
  if (plain !== said) { text("said", words); said = plain; } // a screen reader reads no running numbers
  if (f.losses) losses(f.losses);
}

let said = "";
function text(id, value) {
  const e = $(id);
  if (e.textContent !== value) e.textContent = value;
}

// names are the faults, as the time lines and the verdict call them.
const names = {hang: "The store hangs for this process", steal: "Keys are deleted", pause: "The process is paused", kill: "The server is killed", forget: "The server is killed, its data lost"};

// verdict says what the last fault has led to.
function verdict(f) {
  const e = f.episode;
  if (!e) return [`Nothing is broken. ${number.format(f.held)} of ${number.format(hello.leases)} leases are held and renewed.${f.lost ? ` Since the start ${number.format(f.lost)} holders were told of a loss; the reasons are below.` : ""}`, ""];
  if (e.failed) return [`The fault failed: ${e.failed}`, "broken"];
  const on = f.active === e.fault, since = ms(Math.round(((e.ended || f.now) - e.began) / 100) * 100);
  if (e.held === 0 && e.told === 0) return [`${names[e.fault]}. No lease was held when the fault began, so no holder can be told.`, "warn"];
  const safe = f.held > 0 && e.told === 0 ? ` No holder is told yet: ${number.format(f.held)} leases are still valid, and nobody else can have them.` : "";
  const told = e.told === e.held ? `All ${number.format(e.held)} holders were told` : `${number.format(e.told)} of ${number.format(e.held)} holders were told`;
  const least = e.told > 0 ? (e.late === 0 ? `, each at least ${ms(Math.floor(e.least))} before its lease ended at the store` : `, ${number.format(e.late)} of them after the store could grant the key`) : "";
  const rival = e.rival && e.holder ? (e.rival > e.holder ? ` The rival got the watched lock ${ms(e.rival - e.holder)} after its holder was told.` : ` The rival had the watched lock ${ms(e.holder - e.rival)} before its holder was told.`) : "";
  switch (e.fault) {
    case "hang":
      if (on && e.told === 0) return [`The store hangs for ${since}.${safe}`, "broken"];
      if (on) return [`The store hangs for ${since}. ${told}${least}.${rival}${e.told === e.held ? " Press again to let the store answer." : ""}`, "broken"];
      if (e.told === 0) return [`The store answered again after ${since}. No lease was lost.`, ""];
      return [`The store answered again after ${since}. ${told}${least}.${rival} Lost locks are taken again.`, e.late ? "warn" : ""];
    case "steal":
      return [`${plural(e.held, "key")} were deleted at the store. ${told}${e.told ? `, the last ${ms(e.last - e.began)} after the deletion, with the right reason: the lease is gone. A deletion can only be found by the next renewal` : ""}.${rival}`, on ? "broken" : "warn"];
    case "pause":
      if (!e.resumed) return ["The process is paused.", "broken"];
      return [`The process stood still for ${ms(e.resumed - e.began)}. Nobody can be told meanwhile, but right after it Valid() was true for ${e.valid} of ${number.format(e.held)} leases. ${told}${e.told ? `, the last ${ms(e.last - e.resumed)} after the pause` : ""}.${e.rival && e.rival < e.resumed ? " The rival has worked since its lock was free: the holder must ask Valid() before each step that matters, and its older fencing token is refused." : ""}`, "warn"];
    case "kill":
      if (!e.resumed) return [`redis-server was killed ${since} ago.${safe || ` ${told}${least}.`}`, "broken"];
      return [`redis-server was away for ${ms(e.resumed - e.began)} and kept its data. ${e.told === 0 ? "No lease was lost" : told + least}.${rival}${e.told && e.resumed - e.began > hello.ttl / 3 ? " It was away for longer than a third of the TTL, which renewals bridge." : ""}`, e.told ? "warn" : ""];
    default:
      if (!e.resumed) return [`redis-server was killed ${since} ago, and its data is deleted.${e.told ? ` ${told}${least}.` : ""}`, "broken"];
      return [`redis-server came back without its data, so anyone can have the locks. ${told}${!e.told ? "" : e.last > e.resumed ? `, the last ${ms(e.last - e.resumed)} after it answered` : " at once"}.${rival} No lease can prevent this; the fencing token does: that of the next holder is higher.`, "warn"];
  }
}

let listed = "";
function losses(list) {
  if (listed === (listed = JSON.stringify(list))) return;
  $("losses").replaceChildren(...list.reverse().map((l) => {
    const li = document.createElement("li"), n = document.createElement("b"), why = document.createElement("span"), more = document.createElement("small");
    n.textContent = number.format(l.count);
    why.textContent = `${l.reason} (${l.cause})`;
    more.textContent = `${new Date(l.at).toLocaleTimeString("en-GB")}, lock ${l.first}${l.count > 1 ? " first" : ""}${l.left > 0 ? `: ${ms(l.left)} to stop` : ""}`;
    why.append(more); li.append(n, why);
    return li;
  }));
}

// ---- drawings ----

const space = "http://www.w3.org/2000/svg";
function svg(root, parts) {
  root.replaceChildren(...parts.filter(Boolean).map(([name, attrs, content]) => {
    const e = document.createElementNS(space, name);
    for (const k in attrs) e.setAttribute(k, attrs[k]);
    if (content !== undefined) e.textContent = content;
    return e;
  }));
}

// canvas prepares a canvas for drawing in CSS pixels.
function canvas(id) {
  const c = $(id), w = c.clientWidth, h = c.clientHeight, ratio = devicePixelRatio || 1;
  if (c.width !== Math.round(w * ratio) || c.height !== Math.round(h * ratio)) { c.width = Math.round(w * ratio); c.height = Math.round(h * ratio); }
  const g = c.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  g.font = "11.5px system-ui, sans-serif";
  return [g, w, h, c];
}

function label(e, words) { if (e.getAttribute("aria-label") !== words) e.setAttribute("aria-label", words); }

// lanes draws the time lines of the watched lock.
function lanes(now) {
  const root = $("lanes"), w = root.clientWidth, h = root.clientHeight;
  if (!w) return;
  const left = w < 500 ? 8 : 70, ttl = hello.ttl, back = w < 500 ? ttl * 1.2 : ttl * 2.4, ahead = ttl * 1.08;
  const x = (t) => Math.round((left + (w - left - 8) * (t - now + back) / (back + ahead)) * 10) / 10;
  const clamp = (t) => Math.min(Math.max(t, now - back), now + ahead);
  const rows = {holder: 46, store: 104, rival: 162}, thick = 26, parts = [];
  const narrow = w < 500, e = frame.episode;
  const bar = (row, from, to, kind) => { if (to > now - back && to > from) parts.push(["rect", {class: kind, x: x(clamp(from)), y: rows[row] - thick / 2, width: Math.max(x(clamp(to)) - x(clamp(from)), .5), height: thick, rx: 3}]); };
  if (e && (e.ended || now) > now - back) {
    const until = e.ended || now;
    parts.push(["rect", {class: "broken", x: x(clamp(e.began)), y: 20, width: Math.max(x(clamp(until)) - x(clamp(e.began)), 1), height: h - 44}]);
    if (until > now - back + ttl * .2) parts.push(["text", {class: "soft halo", x: x(clamp(e.began)) + 4, y: 15}, names[e.fault]]);
  }
  for (const y of Object.values(rows)) parts.push(["line", {class: "rail", x1: left, x2: w - 8, y1: y, y2: y}]);
  for (const l of leases) { bar("store", l.from, Math.min(l.to, now), "lease"); if (l.to > now) bar("store", now, l.to, "lease ahead"); }
  if (e && (e.fault === "kill" || e.fault === "forget")) bar("store", e.began, e.resumed || now, "down");
  for (const r of rivals) if (r.has) { bar("store", r.has, r.to || now, "other"); bar("rival", r.has, r.to || now, "other"); }
  for (const r of rivals) {
    const to = Math.min(r.has || r.to || now, now);
    if (to > now - back) parts.push(["line", {class: "waits", x1: x(clamp(r.waits)), x2: x(to), y1: rows.rival, y2: rows.rival}]);
  }
  for (const hold of holds) {
    bar("holder", hold.from, hold.valid || now, "hold");
    if (hold.to - hold.valid > 200) bar("holder", hold.valid, hold.to, "down");
    if (!hold.to && frame.deadline > now) bar("holder", now, frame.deadline, "hold ahead");
  }
  for (const t of frame.renewals) if (t > now - back) parts.push(["path", {class: "renew", fill: "none", d: `M${x(t)},${rows.holder + thick / 2} V${rows.store - thick / 2} m-3.5,-5 l3.5,5 l3.5,-5`}]);
  for (const [name, y] of Object.entries(rows)) parts.push(["text", {x: narrow ? left : 0, y: narrow ? y - thick / 2 - 4 : y + 4, class: "halo"}, name]);
  const open = holds.at(-1), rival = rivals.at(-1);
  if (open && !open.to && frame.deadline > now) {
    parts.push(["line", {class: "deadline", x1: x(frame.deadline), x2: x(frame.deadline), y1: rows.holder - thick / 2 - 5, y2: rows.store + thick / 2 + 5}]);
  }
  for (const hold of holds) if (hold.to > now - back) {
    parts.push(["line", {class: "told", x1: x(hold.to), x2: x(hold.to), y1: rows.holder - thick / 2 - 5, y2: rows.rival + thick / 2 + 3}]);
    if (x(hold.to) > left + 40) parts.push(["text", {class: "halo", x: x(hold.to) - 5, y: rows.holder + 4, "text-anchor": "end"}, "told"]);
    const next = rivals.find((r) => r.has && Math.abs(r.has - hold.to) < ttl * 2 && r.has > hold.to);
    if (next) {
      const words = `${ms(next.has - hold.to)} after the holder was told`;
      parts.push(["text", {class: "halo", x: Math.max(Math.min(x(next.has), w - 7 * words.length), 0), y: rows.rival + 28}, words]);
    }
  }
  const inside = (y, from, to, ...choices) => {
    const a = x(clamp(from)), words = choices.find((c) => x(clamp(to)) - a > c.length * 7 + 8);
    if (words) parts.push(["text", {x: a + 7, y: y + 4}, words]);
  };
  for (const hold of holds) {
    const until = hold.valid || now;
    inside(rows.holder, hold.from, hold.to ? until - 40 * (back + ahead) / (w - left - 8) : until, // beside "told"
      `holds, token ${hold.token}`, `token ${hold.token}`, "holds");
    if (hold.to - hold.valid > 1500) inside(rows.holder, hold.valid, hold.to - 500, "Valid() is false", "not valid");
  }
  for (const r of rivals) if (r.has) {
    inside(rows.rival, r.has, r.to || now, `holds, token ${r.token}`, `token ${r.token}`, "holds");
    inside(rows.store, r.has, r.to || now, "leased to the rival", "rival");
  }
  if (rival && !rival.has && !rival.to) parts.push(["text", {class: "soft halo", x: x(clamp(Math.max(rival.waits, now - back))) + 6, y: rows.rival + (narrow ? 16 : -6)}, "waits for the lock"]);
  for (const l of leases) inside(rows.store, l.from, Math.min(l.to, now), "leased to the holder", "holder");
  parts.push(["line", {class: "now", x1: x(now), x2: x(now), y1: 20, y2: h - 24}]);
  parts.push(["text", {class: "soft", x: x(now), y: h - 8, "text-anchor": "middle"}, "now"]);
  for (let s = Math.ceil(-back / 1000); s <= ahead / 1000; s++) {
    if (s === 0 || (s % 2 && w < 900) || Math.abs(s) % (ttl > 20000 ? 5 : 1)) continue;
    parts.push(["text", {class: "soft", x: x(now + s * 1000), y: h - 8, "text-anchor": "middle"}, `${s > 0 ? "+" : "−"}${Math.abs(s)} s`]);
  }
  svg(root, parts);
  root.setAttribute("viewBox", `0 0 ${w} ${h}`);
  const waits = rival && !rival.has && !rival.to ? "; the rival waits" : "";
  label(root, open && !open.to ? `The holder holds the lock with token ${open.token}${waits}.` : rival?.has && !rival.to ? `The holder was told. The rival holds the lock with token ${rival.token}.` : "The holder was told of its loss.");
}

// wheel draws the levels of the wheel as rings, the first one inside.
function wheel(share) {
  const [g, w, h, c] = canvas("engine"), cx = w / 2, cy = h / 2, outer = Math.min(w, h) / 2 - 2, list = frame.wheel;
  if (outer < 40) return; // the page is not laid out yet
  const rings = Math.max(list.length, 2), first = outer * (rings > 3 ? .42 : .6), gap = 5, depth = (outer - first) / (rings - 1) - gap;
  list.forEach((l, i) => {
    const inner = i === 0 ? first * .42 : first + gap + (i - 1) * (depth + gap), high = i === 0 ? first - inner : depth;
    const n = l.timers.length, most = Math.max(1, ...l.timers), step = 2 * Math.PI / n;
    for (let k = 0; k < n; k++) {
      const a = k * step - Math.PI / 2, pad = i === 0 ? .1 * step : .07 * step;
      g.beginPath(); g.arc(cx, cy, inner + high, a + pad, a + step - pad); g.arc(cx, cy, inner, a + step - pad, a + pad, true); g.closePath();
      g.fillStyle = colours.faint; g.fill();
      if (l.timers[k] === 0) continue;
      const r = inner + high * (.12 + .88 * l.timers[k] / most);
      g.beginPath(); g.arc(cx, cy, r, a + pad, a + step - pad); g.arc(cx, cy, inner, a + step - pad, a + pad, true); g.closePath();
      g.fillStyle = i === 0 ? colours.hold : colours.store; g.fill();
    }
    let hand = l.hand;
    if (before?.wheel?.[i] && share < 1) { // between two measured places
      let from = before.wheel[i].hand;
      if (from > hand) from -= n;
      hand = from + (hand - from) * share;
    }
    const a = (hand + .5) * step - Math.PI / 2;
    g.strokeStyle = colours.loss; g.lineWidth = i === 0 ? 2.5 : 2;
    g.beginPath();
    g.moveTo(cx + Math.cos(a) * (i === 0 ? inner - 8 : inner - gap / 2), cy + Math.sin(a) * (i === 0 ? inner - 8 : inner - gap / 2));
    g.lineTo(cx + Math.cos(a) * (inner + high + 2), cy + Math.sin(a) * (inner + high + 2));
    g.stroke();
  });
  const sums = list.map((l) => l.timers.reduce((a, b) => a + b, 0)), total = sums.reduce((a, b) => a + b, 0);
  g.fillStyle = colours.text; g.textAlign = "center"; g.font = "600 17px system-ui, sans-serif"; g.fillText(number.format(total), cx, cy + 1);
  g.fillStyle = colours.soft; g.font = "11.5px system-ui, sans-serif"; g.fillText("timers", cx, cy + 18);
  const words = list.map((l, i) => `${i === 0 ? "Inside" : i === 1 ? "Outside" : "Level " + i}: ${l.timers.length} buckets of ${ms(l.width)} with ${plural(sums[i], "timer")}`).join(". ") + ".";
  if (!still.matches || c.getAttribute("aria-label") !== words) { text("engine-note", words + (list.length > 1 ? " A bar is as long as its bucket is full: green inside, blue outside. The red hands are at the present; before a hand comes to an outer bucket, its timers move inside." : " A bar is as long as its bucket is full. The red hand is at the present.")); }
  label(c, "Timing wheel. " + words);
}

// heap draws the upper levels of the heap, the root on top. The sooner a timer is due, the darker.
function heap() {
  const [g, w, h, c] = canvas("engine"), levels = frame.heap.levels, period = hello.ttl / 3;
  const high = h / Math.max(levels.length, 1);
  levels.forEach((l, k) => {
    const wide = w / 4 ** k;
    l.forEach((due, i) => {
      const near = 1 - Math.min(Math.max(due, 0) / period, 1);
      g.fillStyle = colours.faint; g.fillRect(i * wide + (k < 4 ? 1 : .2), k * high + 3, wide - (k < 4 ? 2 : .4), high - 6);
      g.fillStyle = due < 0 ? colours.loss : `rgba(${colours.heat}, ${(.12 + .88 * near).toFixed(3)})`;
      const tall = (high - 6) * (.08 + .92 * near);
      g.fillRect(i * wide + (k < 4 ? 1 : .2), k * high + high - 3 - tall, wide - (k < 4 ? 2 : .4), tall);
    });
  });
  const words = levels.length ? `${plural(frame.heap.timers, "timer")}. The root is due in ${ms(Math.max(levels[0][0], 0))}; each entry has four below it that are due later. The higher a bar, the sooner.` : "No timer is pending.";
  text("engine-note", words);
  label(c, "Heap. " + words);
}

// heat draws how late renewals were sent: time to the right, lateness upwards.
function heat() {
  const [g, w, h, c] = canvas("heat"), bins = 36, left = 46, bottom = 18, wide = (w - left) / 120, high = (h - bottom) / bins;
  const most = Math.max(1, ...columns.flatMap((x) => x.late.map((p) => p[1])));
  g.fillStyle = colours.soft; g.textAlign = "right";
  for (const [bin, name] of [[0, "16 µs"], [12, "1 ms"], [20, "16 ms"], [28, "¼ s"], [35, "3 s"]]) {
    const y = h - bottom - (bin + .5) * high;
    g.fillText(name, left - 6, Math.min(Math.max(y + 4, 9), h - bottom));
    g.fillRect(left, y, w - left, .4);
  }
  columns.forEach((x, i) => {
    const at = w - (columns.length - i) * wide;
    for (const [bin, n] of x.late) {
      g.fillStyle = `rgba(${colours.heat}, ${(.15 + .85 * Math.sqrt(n / most)).toFixed(3)})`;
      g.fillRect(at, h - bottom - (bin + 1) * high, Math.max(wide - .5, 1), Math.max(high - .3, 1));
    }
  });
  g.fillStyle = colours.soft; g.textAlign = "left"; g.fillText("a minute ago", left, h - 4);
  g.textAlign = "right"; g.fillText("now", w, h - 4);
  const last = columns.at(-1);
  if (last) label(c, `Lateness over time. Now: median ${ms(last.p50)}, 99th percentile ${ms(last.p99)}.`);
}

// told draws how many holders were told since the fault began, and whose leases have ended since.
function told() {
  const root = $("told"), e = frame.episode, w = root.clientWidth, h = root.clientHeight;
  root.setAttribute("viewBox", `0 0 ${w} ${h}`);
  text("told-note", e ? "" : "Break something. This will show how many holders were told, and how many of their leases have ended since.");
  if (!e) { svg(root, []); return; }
  const left = 46, bottom = 22, top = 16, until = Math.min(Math.max((e.ended || frame.now) - e.began, hello.ttl * 1.25, Math.max(e.toldBy.length, e.freeBy.length) * e.bin + 500), 60000);
  const x = (t) => left + (w - left - 4) * t / until, y = (n) => h - bottom - (h - bottom - top) * n / Math.max(e.held, 1);
  const curve = (bins, limit) => {
    let d = `M${x(0)},${y(0)}`, sum = 0;
    for (let i = 0; i < bins.length && (i + 1) * e.bin <= limit; i++) { sum += bins[i]; d += ` L${x((i + 1) * e.bin).toFixed(1)},${y(sum).toFixed(1)}`; }
    return [d + ` L${x(Math.min(limit, until)).toFixed(1)},${y(sum).toFixed(1)}`, sum];
  };
  const limit = Math.min(frame.now - e.began, until), [a, sum] = curve(e.toldBy, limit), [b] = curve(e.freeBy, limit), parts = [];
  for (const n of [0, e.held]) parts.push(["line", {class: "rail", x1: left, x2: w, y1: y(n), y2: y(n)}], ["text", {class: "soft", x: left - 6, y: y(n) + 4, "text-anchor": "end"}, number.format(n)]);
  const every = until > 30000 ? 10 : until > 12000 ? 4 : 2;
  for (let s = 0; s * 1000 <= until; s += every) parts.push(["text", {class: "soft", x: x(s * 1000), y: h - 5, "text-anchor": s ? "middle" : "start"}, `${s} s`]);
  parts.push(["path", {class: "curve-free", d: b}], ["path", {class: "curve-told", d: a}]);
  parts.push(["line", {class: "curve-told", x1: left + 10, x2: left + 34, y1: top + 16, y2: top + 16}], ["text", {class: "halo", x: left + 40, y: top + 20}, "holders told"]);
  parts.push(["line", {class: "curve-free", x1: left + 10, x2: left + 34, y1: top + 36, y2: top + 36}], ["text", {class: "halo", x: left + 40, y: top + 40}, "a rival could have the lock"]);
  svg(root, parts);
  label(root, `${number.format(sum)} of ${number.format(e.held)} holders were told since the fault.`); // what is drawn
}

let seen, tallied;
function draw() {
  if (!frame) return;
  const silent = performance.now() - received, chip = $("link");
  const state = silent > 1200 ? `no news for ${(silent / 1000).toFixed(1)} s` : "live";
  if (chip.textContent !== state) { chip.textContent = state; chip.className = "chip " + (silent > 1200 ? "stalled" : "live"); }
  if (silent > 1200 && frame.active === "pause") { text("verdict", `The process has been silent for ${(silent / 1000).toFixed(1)} s: it is stopped. Nobody can be told anything now, but the deadline of each lease passes all the same.`); $("verdict").className = "verdict broken"; }
  const now = frame.now + (silent < 400 && !still.matches ? silent : 0);
  if (silent < 2500) {
    lanes(now);
    if (frame.wheel) wheel(still.matches ? 1 : Math.min(silent / Math.max(frame.now - (before?.now || 0), 1), 1)); else if (frame.heap && frame !== seen) heap();
  }
  if (frame !== seen) told();
  if (columns.at(-1) !== tallied || columns.length === 0) { heat(); tallied = columns.at(-1); }
  seen = frame;
}

// With reduced motion the page changes twice a second, otherwise with the display.
let drawn = 0;
function loop(at) {
  if (!still.matches || at - drawn > 500) { draw(); drawn = at; }
  requestAnimationFrame(loop);
}

for (const b of document.querySelectorAll("[data-fault]")) b.addEventListener("click", async () => {
  const answer = await fetch("fault/" + b.dataset.fault, {method: "POST"});
  if (!answer.ok) { $("verdict").textContent = (await answer.text()).trim(); }
});
const repaint = () => { readColours(); seen = tallied = undefined; draw(); };
dark.addEventListener("change", repaint);
addEventListener("resize", () => { seen = tallied = undefined; draw(); });
readColours();
connect();
requestAnimationFrame(loop);
