"use strict";
(async () => {
  const find = (selector, inside = document) => inside.querySelector(selector);
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
  const make = (tag, content = "", attributes = {}) => {
    const element = document.createElement(tag);
    element.textContent = content; // never markup: names come from files
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    return element;
  };
  // Many data are packed.
  const unpacked = async (text) => {
    const packed = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  };
  const withoutTable = () => {
    find("#cases .about").append(" This browser is too old to unpack the table.");
    return { columns: [] };
  };
  const stored = find("#data");
  const isPlain = stored.type === "application/json";
  const data = isPlain ? JSON.parse(stored.textContent) : await unpacked(stored.textContent).catch(withoutTable);
  const columns = data.columns;
  const links = data.links || {}; // row to its address in the viewer
  const size = columns.length ? columns[0].codes.length : 0;
  const PAGE = 50;

  const value = (row, column) => {
    const c = columns[column];
    return c.kind === "text" ? c.names[c.codes[row]] : c.values[row];
  };
  const written = (row, column) => {
    const c = columns[column];
    const v = value(row, column);
    if (c.kind === "text") return v;
    if (v === null) return "–";
    if (c.kind === "count") return v.toLocaleString("en");
    if (c.kind === "decimal") return v.toFixed(3).replace("-", "−");
    if (c.kind === "volume") {
      const size = Math.abs(v);
      const digits = size >= 100 ? size.toFixed(0) : size >= 10 ? size.toFixed(1) : size >= 0.1 ? size.toFixed(2) : String(Number(size.toPrecision(2)));
      return (v < 0 ? "−" : "") + digits;
    }
    const digits = Math.abs(v).toFixed(1);
    const zero = Number(digits) === 0;
    return (v < 0 && !zero ? "−" : c.kind === "difference" && !zero ? "+" : "") + digits;
  };

  // Theme: follows the system until the reader chooses.
  const theme = find("#theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light theme" : "Dark theme"; };
  theme.hidden = false;
  theme.addEventListener("click", () => { document.documentElement.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();
  // A table that is wider than its box says that it goes on.
  const mark = (box) => box.classList.toggle("cut", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  const sizes = new ResizeObserver((entries) => entries.forEach(({ target }) => mark(target.closest(".scroll"))));
  for (const box of all(".scroll")) {
    box.addEventListener("scroll", () => mark(box), { passive: true });
    for (const part of [box, box.firstElementChild]) sizes.observe(part);
  }
  if (!columns.length) return; // a page without cases

  // The case table: sorted and filtered over all rows, a page of them in the document.
  const state = { order: [], column: data.sortedBy, descending: data.descending, page: 0, text: "", chosen: new Map(), only: null, row: null };
  const collator = new Intl.Collator("en", { numeric: true });
  const searchable = new Array(size);
  const textOf = (row) => {
    if (searchable[row] === undefined) {
      searchable[row] = columns.map((c, i) => (c.kind === "text" ? value(row, i) : "")).join("\n").toLowerCase();
    }
    return searchable[row];
  };
  const arrange = () => {
    const rows = [];
    const words = state.text.toLowerCase().trim();
    for (let row = 0; row < size; row += 1) {
      if (state.only !== null) {
        if (columns[0].codes[row] === state.only) rows.push(row);
        continue;
      }
      if (words && !textOf(row).includes(words)) continue;
      let keep = true;
      for (const [column, code] of state.chosen) keep = keep && columns[column].codes[row] === code;
      if (keep) rows.push(row);
    }
    const c = columns[state.column];
    const sign = state.descending ? -1 : 1;
    if (c.kind === "text") {
      const ranked = c.names.map((_, i) => i).sort((a, b) => collator.compare(c.names[a], c.names[b]));
      const rank = new Array(c.names.length);
      ranked.forEach((code, place) => { rank[code] = place; });
      rows.sort((a, b) => sign * (rank[c.codes[a]] - rank[c.codes[b]]) || a - b);
    } else {
      // Rows without a value come last, whichever the direction.
      rows.sort((a, b) => {
        const [x, y] = [c.values[a], c.values[b]];
        if (x === null || y === null) return (x === null) - (y === null) || a - b;
        return sign * (x - y) || a - b;
      });
    }
    state.order = rows;
    state.page = 0;
  };
  const head = find("#casetable thead");
  const body = find("#casetable tbody");
  const show = () => {
    const first = state.page * PAGE;
    const rows = state.order.slice(first, first + PAGE);
    const fragment = document.createDocumentFragment();
    for (const row of rows) {
      const line = make("tr", "", { "data-row": row });
      if (row === state.row) line.className = "chosen";
      columns.forEach((c, column) => {
        const text = written(row, column);
        // Names such as hippocampus_126 are not broken.
        const kind = c.kind !== "text" ? "num" : text.length <= 24 ? "short" : "";
        const cell = make("td", text, kind ? { class: kind } : {});
        if (column === 0 && data.pictures[row] !== undefined) {
          const button = make("button", "picture", { type: "button", "aria-label": `picture of ${value(row, 0)}` });
          button.addEventListener("click", () => showPicture(row));
          cell.append(button);
        }
        if (column === 0 && links[row] !== undefined) {
          cell.append(make("a", "viewer", { href: links[row], class: "inviewer", "aria-label": `${value(row, 0)} in the viewer` }));
        }
        line.append(cell);
      });
      fragment.append(line);
    }
    body.replaceChildren(fragment);
    all("th", head).forEach((heading, column) => {
      if (column === state.column) heading.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    const n = state.order.length;
    find("#count").textContent = n ? `Rows ${first + 1} to ${first + rows.length} of ${n.toLocaleString("en")}` : "No row fits the filters.";
    find('[data-do="previous"]').disabled = state.page === 0;
    find('[data-do="next"]').disabled = first + PAGE >= n;
  };
  const refresh = () => { arrange(); show(); };

  const line = make("tr");
  columns.forEach((c, column) => {
    const heading = make("th", "", { scope: "col", class: c.kind === "text" ? "" : "num" });
    const button = make("button", c.title, { type: "button" });
    button.addEventListener("click", () => {
      state.descending = state.column === column ? !state.descending : false;
      state.column = column;
      refresh();
    });
    heading.append(button);
    line.append(heading);
  });
  head.append(line);

  const filters = find("#filters");
  filters.addEventListener("submit", (event) => event.preventDefault());
  const field = (title, control) => {
    const label = make("label", title);
    label.append(control);
    filters.append(label);
  };
  const search = make("input", "", { type: "search", placeholder: "part of a name", autocomplete: "off", spellcheck: "false" });
  search.addEventListener("input", () => { state.text = search.value; choose(null); refresh(); });
  field("Find", search);
  columns.forEach((c, column) => {
    if (!c.filtered || c.names.length < 2) return;
    const control = make("select", "", { "data-column": column });
    control.append(make("option", "all", { value: "" }));
    c.names.map((name, code) => [name, code]).sort((a, b) => collator.compare(a[0], b[0]))
      .forEach(([name, code]) => control.append(make("option", name, { value: code })));
    control.addEventListener("change", () => {
      if (control.value === "") state.chosen.delete(column);
      else state.chosen.set(column, Number(control.value));
      choose(null);
      refresh();
    });
    field(c.title, control);
  });

  // A chosen case: its rows alone in the table, its dots marked in every figure.
  let origin = null;
  const choose = (row) => {
    all(".dot.chosen, .picture.chosen").forEach((element) => element.classList.remove("chosen"));
    state.row = row;
    state.only = row === null ? null : columns[0].codes[row];
    const bar = find("#selected");
    bar.hidden = row === null;
    if (row === null) return;
    find("span", bar).textContent = `Only case ${value(row, 0)} is shown.`;
    const viewer = find("#inviewer");
    viewer.hidden = links[row] === undefined;
    if (!viewer.hidden) viewer.href = links[row];
    const rows = new Set();
    columns[0].codes.forEach((code, other) => { if (code === state.only) rows.add(String(other)); });
    for (const run of all(".dots polyline")) if (run.dataset.rows.split(" ").some((other) => rows.has(other))) part(run.closest("svg"));
    all(".dot").forEach((dot) => { if (rows.has(dot.dataset.row)) dot.classList.add("chosen"); });
    for (const other of rows) if (data.pictures[other] !== undefined) document.getElementById(data.pictures[other]).classList.add("chosen");
  };
  const open = (row, from) => {
    origin = from;
    choose(row);
    find('[data-do="back"]').hidden = !from;
    arrange();
    state.page = Math.floor(state.order.indexOf(row) / PAGE);
    show();
    const target = find("tr.chosen", body);
    target.tabIndex = -1;
    find("#selected").scrollIntoView({ block: "start" });
    target.focus({ preventScroll: true });
  };
  const showPicture = (row) => {
    const picture = document.getElementById(data.pictures[row]);
    all(".picture.chosen").forEach((element) => element.classList.remove("chosen"));
    picture.classList.add("chosen");
    picture.scrollIntoView({ block: "center" });
    picture.focus({ preventScroll: true });
  };
  const actions = {
    previous: () => { state.page -= 1; show(); },
    next: () => { state.page += 1; show(); },
    clear: () => { choose(null); refresh(); search.focus(); },
    back: () => { if (origin) { origin.scrollIntoView({ block: "center" }); enter(origin); } },
  };
  all("[data-do]").forEach((button) => button.addEventListener("click", () => actions[button.dataset.do]()));

  // The dots of one look are one element, a run, until somebody comes near their figure: there may be tens of thousands.
  const dotsOf = (run, limit = Infinity) => {
    const mark = find("path", document.getElementById(run.dataset.look));
    const places = run.getAttribute("points").split(" ");
    return run.dataset.rows.split(" ").slice(0, limit).map((row, n) => {
      const dot = mark.cloneNode();
      dot.setAttribute("transform", `translate(${places[n]})`);
      dot.dataset.row = row;
      return dot;
    });
  };
  const part = (chart) => {
    for (const group of all(".dots", chart)) {
      const dots = [];
      for (const run of all("polyline", group)) {
        const order = run.dataset.order ? run.dataset.order.split(" ") : null;
        dotsOf(run).forEach((dot, n) => { dots[order ? order[n] : n] = dot; });
        run.remove();
      }
      const first = find(".first", group); // it may have the focus, and stays
      if (first) dots.shift();
      if (first) first.classList.remove("first");
      group.append(...dots);
    }
  };

  // Dots: one stop of the Tab key per figure, arrow keys inside it.
  const tooltip = find("#tooltip");
  const describe = (dot) => {
    const row = Number(dot.dataset.row);
    const names = columns.map((c, i) => i).filter((i) => i > 0 && columns[i].kind === "text").map((i) => value(row, i));
    const shown = dot.closest("svg").dataset.columns.split(",").map(Number)
      .map((i) => `${columns[i].title}: ${written(row, i)}`);
    return { case: value(row, 0), names: names.join(" · "), values: shown };
  };
  const hint = (dot) => {
    const about = describe(dot);
    tooltip.replaceChildren(make("b", about.case), make("div", about.names), ...about.values.map((text) => make("div", text)));
    tooltip.hidden = false;
    const place = dot.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = tooltip;
    const left = Math.min(Math.max(8, place.left + place.width / 2 - width / 2), document.documentElement.clientWidth - width - 8);
    const top = place.top - height - 8 < 4 ? place.bottom + 8 : place.top - height - 8;
    tooltip.style.left = `${Math.max(8, left)}px`;
    tooltip.style.top = `${top}px`;
  };
  const prepare = (dot) => {
    const about = describe(dot);
    dot.setAttribute("role", "button");
    dot.setAttribute("aria-label", [about.case, about.names, ...about.values].join(", "));
    dot.setAttribute("tabindex", "0");
  };
  const enter = (dot) => {
    all('.dot[tabindex="0"]', dot.closest("svg")).forEach((other) => other.setAttribute("tabindex", "-1"));
    prepare(dot);
    dot.focus({ preventScroll: false });
  };
  all("svg.chart").forEach((chart) => {
    const run = find('.dots polyline:is([data-order=""], [data-order="0"], [data-order^="0 "])', chart);
    if (!run) return;
    const [first] = dotsOf(run, 1);
    first.classList.add("first"); // the run shows it
    run.before(first);
    prepare(first);
    chart.addEventListener("keydown", (event) => {
      const dot = event.target.closest(".dot");
      if (!dot) return;
      const dots = all(".dot", chart);
      const here = dots.indexOf(dot);
      const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -here, End: dots.length - 1 - here };
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        open(Number(dot.dataset.row), dot);
      } else if (event.key === "Escape") {
        tooltip.hidden = true;
      } else if (event.key in steps) {
        event.preventDefault();
        enter(dots[Math.min(Math.max(here + steps[event.key], 0), dots.length - 1)]);
      }
    });
    chart.addEventListener("click", (event) => {
      // The first touch of a figure parts its dots: what it aims at is there only then.
      const dot = document.elementFromPoint(event.clientX, event.clientY)?.closest(".dot") ?? event.target.closest(".dot");
      if (dot) open(Number(dot.dataset.row), dot);
    });
    for (const kind of ["pointerover", "focusin"]) {
      chart.addEventListener(kind, (event) => {
        part(chart);
        const dot = event.target.closest(".dot");
        if (dot) hint(dot);
      });
    }
    for (const kind of ["pointerout", "focusout"]) chart.addEventListener(kind, () => { tooltip.hidden = true; });
  });
  window.addEventListener("scroll", () => { if (!document.activeElement.closest(".chart")) tooltip.hidden = true; }, { passive: true });

  const contours = find("#contours");
  if (contours) {
    contours.hidden = false;
    contours.addEventListener("click", () => {
      const plain = find(".gallery").classList.toggle("plain");
      contours.setAttribute("aria-pressed", String(!plain));
    });
  }
  // Paper cannot be unfolded: what is folded is printed open.
  window.addEventListener("beforeprint", () => all("details").forEach((part) => { part.open = true; }));
  find("#casebox").hidden = false;
  refresh();
})();
