"use strict";
// Without this script the page shows everything: it adds searching, sorting and pointing, and writes text alone.

function makeSearchable(box) {
  const finder = box.querySelector(".finder");
  const search = finder.querySelector("input[type=search]");
  const selects = [...finder.querySelectorAll("select")];
  const count = finder.querySelector(".count");
  const rows = [...box.querySelector("tbody").rows];
  const texts = rows.map((row) => (row.cells[0].textContent + " " + row.cells[1].textContent).toLowerCase());

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      const fits = words.every((word) => texts[index].includes(word)) &&
        selects.every((one) => one.selectedIndex === 0 || row.dataset[one.dataset.by] === String(one.selectedIndex));
      row.hidden = !fits;
      shown += fits;
    });
    count.textContent = `${shown} of ${rows.length} shown`;
  }

  search.addEventListener("input", filter);
  selects.forEach((one) => one.addEventListener("change", filter));
  finder.querySelector("[data-reset]").addEventListener("click", () => {
    search.value = "";
    selects.forEach((one) => { one.selectedIndex = 0; });
    filter();
    search.focus();
  });
  finder.hidden = false;
  // A browser may bring back what was typed before the page was loaded again.
  filter();
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.querySelectorAll("th[data-sort]")];
  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  function sort(head) {
    const isNumber = head.dataset.sort === "number";
    const first = isNumber ? "descending" : "ascending";
    const other = isNumber ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? other : first;
    const sign = order === "ascending" ? 1 : -1;
    const key = (row) => {
      const cell = row.cells[head.cellIndex];
      return isNumber ? Number(cell.dataset.value) : cell.textContent.trim();
    };
    const compare = isNumber ? (a, b) => a - b : collator.compare;
    // From the first order each time, so that equal rows always stand alike.
    const sorted = rows.map((row) => [key(row), row]).sort((a, b) => sign * compare(a[0], b[0]));
    heads.forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", order);
    body.append(...sorted.map((pair) => pair[1]));
  }

  for (const head of heads) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => sort(head));
    head.replaceChildren(button);
  }
}

function makeTelling(chart) {
  const columns = [...chart.querySelectorAll(".column")];
  const teller = chart.querySelector(".teller");
  const slider = teller.querySelector("input");
  const told = teller.querySelector(".told");

  function tell(index) {
    columns.forEach((column, other) => column.classList.toggle("at", other === index));
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", columns[index].dataset.told);
    told.textContent = columns[index].dataset.told;
  }

  columns.forEach((column, index) => column.addEventListener("pointerenter", () => tell(index)));
  slider.addEventListener("input", () => tell(Number(slider.value)));
  teller.hidden = false;
  tell(Number(slider.value));
}

document.querySelectorAll("[data-searchable]").forEach(makeSearchable);
document.querySelectorAll("table.items").forEach(makeSortable);
document.querySelectorAll("[data-chart]").forEach(makeTelling);
