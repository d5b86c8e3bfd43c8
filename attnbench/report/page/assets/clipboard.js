// @ts-check
// Copying, also where a page from a file may not use the clipboard.

/**
 * @param {string} text
 * @param {string} words what was copied
 */
async function copy(text, words) {
  const done = await toClipboard(text);
  say(done ? `Copied ${words}.` : "The browser refused to copy.");
  return done;
}

/** @param {string} text */
async function toClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return bySelection(text);
  }
}

/** @param {string} text */
function bySelection(text) {
  const before = document.activeElement;
  const area = element("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  if (before instanceof HTMLElement) before.focus();
  return done;
}

/**
 * A button that copies, and says on itself that it did.
 * @param {string} words
 * @param {string} what
 * @param {() => string} text
 */
function copyButton(words, what, text) {
  const button = element("button", { type: "button" }, words);
  button.addEventListener("click", async () => {
    button.textContent = (await copy(text(), what)) ? "Copied" : "Not copied";
    setTimeout(() => (button.textContent = words), 1500);
  });
  return button;
}

/** Beside every text that is there to be copied. */
function offerCopies() {
  for (const block of document.querySelectorAll("pre.copied")) {
    block.after(copyButton("Copy", block.getAttribute("aria-label") ?? "the text", () => block.textContent ?? ""));
  }
}
