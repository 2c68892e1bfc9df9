// Shows, below each result of the search, the lines where the words stand: see docs/_ext/excerpts.py.
{
  const LENGTH = 240; // Characters of an excerpt.
  const asked = new Map(); // The promised texts of pages.
  const resolvers = new Map(); // Functions that keep these promises.
  const words = (new URLSearchParams(location.search).get("q") ?? "")
    .toLowerCase()
    .split(/[^\p{Letter}\p{Number}_]+/u)
    .filter((word) => word);

  window.pageTexts = (page, texts) => resolvers.get(page)(texts);

  const load = (page) =>
    new Promise((resolve) => {
      resolvers.set(page, resolve);
      const script = document.createElement("script");
      script.src = `_excerpts/${page}.js`;
      document.head.append(script);
    });

  const textsOf = (page) => {
    if (!asked.has(page)) asked.set(page, load(page));
    return asked.get(page);
  };

  // Places of the words in a text. A word is found with its last letters changed, too: its stem is.
  const stemmer = new Stemmer();
  const isWord = /[\p{Letter}\p{Number}_]/u;
  const patterns = words.map((word) => {
    const stem = stemmer.stemWord(word);
    return word.startsWith(stem) && stem.length > 2 ? stem : word;
  });
  const placesIn = (text) => {
    const lower = text.toLowerCase();
    return patterns.map((pattern) => {
      let place = lower.indexOf(pattern);
      while (place > 0 && isWord.test(lower[place - 1])) place = lower.indexOf(pattern, place + 1);
      return place < 0 ? lower.indexOf(pattern) : place;
    });
  };

  const hasAll = (text) => !placesIn(text).includes(-1);

  // The section that the result is about: the first one if the title has all words, else the first
  // that has most of them.
  const sectionFor = (texts, anchor, title) => {
    if (anchor in texts) return anchor;
    const sections = Object.keys(texts);
    if (hasAll(title)) return sections[0];
    const found = sections.map((name) => placesIn(texts[name]).filter((place) => place >= 0).length);
    return sections[found.indexOf(Math.max(...found))];
  };

  // The beginning of a text if the title has all words, else the lines around the first word.
  const excerptOf = (text, title) => {
    const places = hasAll(title) ? [] : placesIn(text).filter((place) => place >= 0);
    let start = Math.max(0, Math.min(...(places.length ? places : [0])) - LENGTH / 4);
    if (start) start = text.indexOf(" ", start) + 1;
    let end = Math.min(text.length, start + LENGTH);
    if (end < text.length) end = Math.max(text.lastIndexOf(" ", end), start + LENGTH / 2);
    return (start ? "… " : "") + text.slice(start, end) + (end < text.length ? " …" : "");
  };

  // Adds the excerpt to a result, and leads a result without a place in its page to the section.
  const show = (item, texts) => {
    const link = item.querySelector("a");
    const anchor = link.hash.slice(1);
    const section = sectionFor(texts, anchor, link.textContent);
    if (section === undefined) return;
    if (!anchor) link.hash = section;
    const line = document.createElement("p");
    line.className = "context";
    line.textContent = excerptOf(texts[section], link.textContent);
    item.append(line);
    words.forEach((word) => _highlightText(line, word, "highlighted"));
  };

  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      const page = target.querySelector("a").getAttribute("href").replace(/\.html(#.*)?$/, "");
      textsOf(page).then((texts) => show(target, texts));
    }
  });

  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) if (node.matches?.("ul.search > li")) seen.observe(node);
    }
  }).observe(document.getElementById("search-results"), { childList: true, subtree: true });
}
