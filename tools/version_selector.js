// Shows a selector of versions on a page of a site that `make docs VERSIONS=...` built.
//
// `versions.js`, beside this file, is loaded before it and sets `siteVersions`: the names of the
// versions, which are folders beside this file, with the pages that each has.
{
  const root = new URL(".", document.currentScript.src).href;
  const startOf = (version) => root + version.name.split("/").map(encodeURIComponent).join("/") + "/";
  const here = location.href.split(/[?#]/)[0];
  const shown = siteVersions.find((version) => here.startsWith(startOf(version)));

  const pageIn = (version) => {
    const page = decodeURI(here.slice(startOf(shown).length));
    return startOf(version) + (version.pages.includes(page) ? encodeURI(page) : "index.html");
  };

  const show = () => {
    const select = document.createElement("select");
    for (const version of siteVersions) {
      select.add(new Option(version.name, pageIn(version), false, version === shown));
    }
    select.addEventListener("change", () => location.assign(select.value));
    // A page that the browser shows again after "back" has the choice that left it.
    addEventListener("pageshow", () => (select.value = pageIn(shown)));
    select.style.cssText =
      "background: var(--color-background-primary); border: 1px solid var(--color-background-border);" +
      "border-radius: 4px; color: inherit; flex: 1; font: inherit; min-width: 0; padding: 0.2em 0.4em;";
    const label = document.createElement("label");
    label.className = "version-selector";
    label.style.cssText =
      "align-items: center; color: var(--color-foreground-secondary); display: flex;" +
      "font-size: 0.875rem; gap: 0.6em; padding: 0.25rem 1rem 0.75rem;";
    label.append("Version", select);
    const brand = document.querySelector(".sidebar-brand");
    if (brand) brand.after(label);
    else document.body.prepend(label);
  };

  if (shown) document.addEventListener("DOMContentLoaded", show);
}
