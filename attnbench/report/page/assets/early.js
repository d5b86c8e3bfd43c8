// @ts-check
// Before anything is drawn: that scripts run, and the theme that the link asks for.
document.documentElement.classList.add("js");
const wanted = new URLSearchParams(location.hash.slice(1)).get("theme");
if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
