// @ts-check
// Elements. Text is only ever set as text: whatever is in a name stays a name.

/**
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, string | number | boolean | ((event: Event) => void)>} attributes a function listens; false is left out
 * @param {...(Node | string)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : String(value));
  }
  made.append(...children);
  return made;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Node} children
 */
function drawing(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/**
 * An element of the page's own; that it is there is sure.
 * @param {string} id
 */
function part(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** Pixels of the page's letters: charts grow with them. */
function em() {
  return Number.parseFloat(getComputedStyle(document.documentElement).fontSize);
}

/**
 * Said to those who listen to the page.
 * @param {string} text
 */
function say(text) {
  part("said").textContent = text;
}
