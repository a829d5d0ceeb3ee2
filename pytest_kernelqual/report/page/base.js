// What both pages share: elements made of text, the theme, the data, lists that grow as they are read, the dialog.

/** Make an element; children that are not elements are text, so that nothing of a report is read as HTML. */
function make(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") made.className = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(2).filter((child) => child !== null && child !== undefined));
  return made;
}

const byId = (id) => document.getElementById(id);
const counted = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
const words = (name) => name.replaceAll("_", " ");

/** Read the data of the page, which is kept as compressed JSON. */
async function readData() {
  const packed = atob(byId("data").textContent);
  const bytes = new Uint8Array(packed.length);
  for (let place = 0; place < packed.length; place++) bytes[place] = packed.charCodeAt(place);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

/** Run the page, and say where it cannot. */
async function start(show) {
  try {
    setUpTheme();
    setUpDetail();
    await show(await readData());
    document.documentElement.dataset.ready = Math.round(performance.now());
  } catch (error) {
    const told = byId("broken");
    told.textContent = `This page cannot be shown in this browser: ${error}. A browser of 2023 or later is needed.`;
    told.hidden = false;
    throw error;
  }
}

// The theme follows the system until it is chosen; what was chosen is kept where the browser lets a page keep anything.

const themeListeners = [];

function setUpTheme() {
  const button = byId("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const told = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
    for (const listener of themeListeners) listener();
  };
  try {
    const kept = localStorage.getItem("kernelqual-theme");
    if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
  } catch { /* a page of a file may have no storage */ }
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("kernelqual-theme", document.documentElement.dataset.theme); } catch { /* as above */ }
    told();
  });
  system.addEventListener("change", told);
  told();
}

/** Return a colour of the style sheet as the theme of the moment has it. */
function colour(name) {
  const probe = make("span", { hidden: true });
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

// Lists.

/** Fill `parent` with what `row` makes of items, the next ones once their place is near the window. */
function lazily(parent, items, row, first = 60, step = 120) {
  parent.lazy?.disconnect();
  parent.replaceChildren();
  let shown = 0;
  const grow = (number) => {
    const added = document.createDocumentFragment();
    for (const end = Math.min(items.length, shown + number); shown < end; shown++) added.append(row(items[shown], shown));
    parent.append(added);
  };
  grow(first);
  if (shown === items.length) return;
  parent.lazy = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    parent.lazy.disconnect();
    grow(step);
    if (shown < items.length) parent.lazy.observe(parent.lastElementChild);
  }, { rootMargin: "1500px" });
  parent.lazy.observe(parent.lastElementChild);
}

/** Let columns of a table be sorted by buttons in their heads; `by` holds a value of an item for each such column. */
function sortable(table, columns, items, show) {
  const heads = columns.map(({ title, by, numeric, wide }) => {
    const head = make("th", { scope: "col", class: [numeric && "number", wide && "wide"].filter(Boolean).join(" ") });
    if (!by) head.append(title);
    else {
      head.append(make("button", { type: "button", class: "sort", onclick: () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const known = items().filter((item) => by(item) !== null);
        const unknown = items().filter((item) => by(item) === null);
        const order = (a, b) => (by(a) < by(b) ? -1 : by(a) > by(b) ? 1 : 0) * (down ? -1 : 1);
        show([...known.sort(order), ...unknown]);
      } }, title));
    }
    return head;
  });
  table.append(make("thead", {}, make("tr", {}, heads)));
}

const scrolling = (label, ...children) => make("div", { class: "scroll", role: "region", "aria-label": label, tabindex: 0 }, children);

function plainTable(label, titles, rows) {
  return scrolling(label, make("table", { class: "plain", "aria-label": label },
    make("thead", {}, make("tr", {}, titles.map((title) => make("th", { scope: "col" }, title)))),
    make("tbody", {}, rows.map(([head, ...cells]) => make("tr", {}, make("th", { scope: "row" }, head), cells.map((cell) => make("td", {}, cell)))))));
}

/** Tell whether every word is part of a text. */
const holds = (text, wanted) => wanted.every((word) => text.includes(word));

// The dialog for the details of one thing; the browser keeps the focus in it and gives it back.

function setUpDetail() {
  const dialog = byId("detail");
  byId("detail-close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}

function showDetail(title, ...content) {
  byId("detail-title").textContent = title;
  byId("detail-body").replaceChildren(...content.flat().filter(Boolean));
  const dialog = byId("detail");
  if (!dialog.open) dialog.showModal();
  byId("detail-title").focus();
  dialog.scrollTop = 0;
}
