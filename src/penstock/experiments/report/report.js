"use strict";
(() => {
  const { figures, themes, dark_colours: darkColours, layout } = JSON.parse(document.getElementById("plots").textContent);
  const ERRORS = 1; // of Vega's levels of logging: no warnings
  const wantsDark = matchMedia("(prefers-color-scheme: dark)");
  const drawn = new Map(); // each plot's element: what was drawn in it, and how to take it away
  let onPaper = false;

  const plotOf = (box) => figures[box.dataset.figure][Number(box.dataset.quantity)];

  function fitted(spec, width) {
    const room = width - layout.axis;
    const { per_row: perRow, legend } = spec.usermeta;
    const columns = Math.min(perRow, Math.max(Math.floor(room / layout.narrowest), 1));
    const panel = Math.max(Math.floor((room + layout.space) / columns) - layout.space, 60);
    const names = Math.max(Math.floor(room / (legend * layout.letter + layout.symbol)), 1);
    const config = { legend: { columns: names, gradientLength: Math.min(room, layout.gradient) } };
    const sized = spec.facet ? { columns, spec: { ...spec.spec, width: panel } } : { width: panel };
    return { ...spec, ...sized, config };
  }

  function recoloured(node) {
    if (typeof node === "string") return darkColours[node] ?? node;
    if (Array.isArray(node)) return node.map(recoloured);
    if (node === null || typeof node !== "object") return node;
    return Object.fromEntries(Object.entries(node).map(([key, value]) => [key, key === "data" ? value : recoloured(value)]));
  }

  async function draw(box) {
    const plot = plotOf(box);
    const width = onPaper ? 660 : box.clientWidth;
    const dark = wantsDark.matches && !onPaper;
    const turn = { width };
    drawn.get(box)?.finalize?.();
    drawn.set(box, turn);
    const spec = fitted(plot.spec, width);
    try {
      const view = await vegaEmbed(box, dark ? recoloured(spec) : spec, {
        mode: "vega-lite",
        logLevel: ERRORS,
        renderer: plot.spec.data.values.length > 1500 ? "canvas" : "svg",
        config: dark ? themes.dark : themes.light,
        tooltip: { theme: dark ? "dark" : "light" },
        actions: { export: true, source: false, compiled: false, editor: false },
        downloadFileName: `${box.dataset.figure}-${plot.name}`,
      });
      if (drawn.get(box) === turn) turn.finalize = view.finalize;
      else view.finalize();
    } catch (error) {
      box.innerHTML = '<p class="failed"></p>';
      box.firstChild.textContent = `This plot cannot be drawn: ${error}`;
    }
  }

  const boxes = [...document.querySelectorAll(".plot")];
  const redraw = () => drawn.forEach((_, box) => draw(box));
  const nearby = new IntersectionObserver(
    (entries) =>
      entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
        nearby.unobserve(target);
        draw(target);
      }),
    { rootMargin: "800px 0px" },
  );
  boxes.forEach((box) => nearby.observe(box));

  let waiting;
  addEventListener("resize", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => drawn.forEach(({ width }, box) => Math.abs(width - box.clientWidth) > 8 && draw(box)), 200);
  });
  wantsDark.addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    onPaper = true;
    boxes.forEach((box) => draw(box));
  });
  addEventListener("afterprint", () => {
    onPaper = false;
    redraw();
  });

  for (const button of document.querySelectorAll(".quantities button")) {
    button.addEventListener("click", () => {
      const section = button.closest(".figure");
      for (const other of section.querySelectorAll(".quantities button")) other.setAttribute("aria-pressed", String(other === button));
      const box = section.querySelector(".plot");
      box.dataset.quantity = button.dataset.quantity;
      nearby.unobserve(box);
      draw(box);
      const numbers = section.querySelector(".numbers");
      numbers.querySelector("table")?.remove();
      if (numbers.open) fill(numbers);
    });
  }

  function fill(numbers) {
    if (numbers.querySelector("table")) return;
    const { label, titles, spec } = plotOf(numbers.closest(".figure").querySelector(".plot"));
    const table = document.createElement("table");
    table.createCaption().textContent = label;
    const fields = Object.keys(titles);
    const head = table.createTHead().insertRow();
    for (const field of fields) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = titles[field];
      if (typeof spec.data.values[0][field] === "number") cell.className = "number";
      head.append(cell);
    }
    const body = table.createTBody();
    for (const row of spec.data.values) {
      const line = body.insertRow();
      for (const field of fields) {
        const cell = line.insertCell();
        const value = row[field];
        if (typeof value === "number") cell.className = "number";
        cell.textContent = typeof value === "number" ? value.toLocaleString("en", { maximumSignificantDigits: 6 }) : (value ?? "");
      }
    }
    numbers.append(table);
  }
  for (const numbers of document.querySelectorAll(".numbers")) numbers.addEventListener("toggle", () => numbers.open && fill(numbers));

  const [verdict, paper] = ["verdict", "paper"].map((name) => document.getElementById(`filter-${name}`));
  const rows = [...document.querySelectorAll("#all tr[data-verdict]")];
  function filter() {
    for (const row of rows) {
      row.hidden = Boolean((verdict.value && row.dataset.verdict !== verdict.value) || (paper.value && row.dataset.paper !== paper.value));
    }
    for (const body of document.querySelectorAll("#all tbody")) body.hidden = !body.querySelector("tr[data-verdict]:not([hidden])");
    const left = rows.filter((row) => !row.hidden).length;
    document.getElementById("filtered").textContent = left === rows.length ? "" : `${left} of ${rows.length} claims are shown`;
  }
  for (const select of [verdict, paper]) select?.addEventListener("change", filter);
  if (verdict) filter();
})();
