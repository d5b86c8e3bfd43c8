// @ts-check
"use strict";
{
  const search = /** @type {HTMLFormElement} */ (document.getElementById("_search"));
  const filter = /** @type {HTMLInputElement} */ (document.getElementById("_filter"));
  const count = /** @type {HTMLOutputElement} */ (document.getElementById("_count"));
  const older = /** @type {NodeListOf<HTMLDetailsElement>} */ (document.querySelectorAll("details.older"));
  const parts = [...document.querySelectorAll("main section"), ...older];
  const cards = [...document.querySelectorAll("li.card")].map((card) => ({
    card,
    text: [card.textContent, ...[...card.querySelectorAll("img")].map((picture) => picture.alt)].join(" ").toLowerCase(),
  }));

  /** Shows the cards that hold every word, and the headings of these. */
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const { card, text } of cards) {
      const wanted = words.every((word) => text.includes(word));
      card.toggleAttribute("hidden", !wanted);
      shown += Number(wanted);
    }
    for (const part of parts) {
      part.toggleAttribute("hidden", part.querySelector("li.card:not([hidden])") === null);
    }
    if (words.length > 0) {
      for (const each of older) each.open = true;
    }
    count.textContent = words.length > 0 ? `${shown} of ${cards.length}` : "";
  };

  filter.addEventListener("input", show);
  search.addEventListener("submit", (event) => event.preventDefault());
  // going back in the browser restores the words
  window.addEventListener("pageshow", show);
  search.hidden = false;
}
