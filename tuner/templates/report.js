// Columns are sorted by their headings; a second click turns the order round. Without scripts the tables are as written.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.title = "Sort by " + head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => row.cells[column].dataset.sort ?? row.cells[column].textContent;
      const body = table.tBodies[0];
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        const order = x !== "" && y !== "" && !isNaN(x) && !isNaN(y) ? x - y : x.localeCompare(y);
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
