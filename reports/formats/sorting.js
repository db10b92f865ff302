// A click on a heading sorts by its column: ascending, then descending, then back to the page's order. Equal rows keep
// the page's order, and rows without a number stay last. The tables also work without scripts.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
  if (rows.length < 3) continue;
  const collator = new Intl.Collator("en", { numeric: true });
  const text = (row, at) => row.cells[at].textContent.trim();
  const number = (row, at) => row.cells[at].dataset.sort;

  const sorted = (at, sign) => {
    const isNumeric = rows.some((row) => number(row, at) !== undefined);
    const byNumber = (a, b) => {
      const [x, y] = [number(a, at), number(b, at)];
      return x === undefined || y === undefined ? (x === undefined) - (y === undefined) : sign * (x - y);
    };
    const byText = (a, b) => sign * collator.compare(text(a, at), text(b, at));
    return [...rows].sort(isNumeric ? byNumber : byText);
  };

  const sortBy = (head, at) => {
    const current = head.getAttribute("aria-sort");
    const order = current === "descending" ? null : current === "ascending" ? "descending" : "ascending";
    for (const other of heads) other.removeAttribute("aria-sort");
    if (order) head.setAttribute("aria-sort", order);
    body.append(...(order ? sorted(at, order === "ascending" ? 1 : -1) : rows));
  };

  // On a phone the headings take extra lines, so they are shown only for long tables.
  table.classList.toggle("long", rows.length > 5);
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sortBy(head, at));
    head.append(button);
  });
}
