// The strips: a pair of words and one head, from two vectors to the guess of the next word.

const signed = (v) => decimal(v, 2);
const power = (v) => (v >= 1e5 || v < 0.001 ? v.toExponential(1) : v >= 1000 ? Math.round(v).toLocaleString("en") : v.toPrecision(3));

// Numbers as bars from a middle line: { name, values, kind, digits }. All rows of a figure have one scale.
function vectorRows(rows, { numbers = true, top = null } = {}) {
  const most = top ?? Math.max(1e-9, ...rows.flatMap(({ values }) => [...values].map(Math.abs)));
  return rows.map(({ name, values, kind, end }) => {
    const cells = [...values].map((v) => {
      const bar = element("i"), cell = element("span", "cell", bar);
      bar.style.height = `${(50 * Math.min(1, Math.abs(v) / most)).toFixed(1)}%`;
      bar.className = v < 0 ? "down" : "up";
      cell.dataset.value = v;
      if (numbers) cell.append(element("small", "", signed(v)));
      else cell.title = signed(v);
      return cell;
    });
    const bars = element("div", "cells", ...cells), label = element("span", "name", name);
    bars.style.setProperty("--count", values.length);
    const row = element("div", `vector ${kind}${numbers ? "" : " dense"}`, label, bars);
    if (end) row.append(end);
    row.setAttribute("role", "img");
    row.setAttribute("aria-label", `${label.textContent}: ${numbers ? [...values].map(signed).join(", ") : `${values.length} numbers`}`);
    return row;
  });
}

// A line for each word: its name, two numbers with these names, a bar from 0 to value(t). The bars share one scale.
function wordRows(texts, query, key, { names, cells, choose, value }) {
  const shown = texts.slice(0, query + 1).map((_, t) => value(t)), low = Math.min(0, ...shown), range = Math.max(0, ...shown) - low || 1;
  const share = (v) => `${((100 * v) / range).toFixed(2)}%`;
  const heading = element("div", "row heading", element("b"), ...names.map((name) => element("small", "", name)));
  return [heading, ...texts.map((text, t) => {
    const later = t > query, row = element(choose && !later ? "button" : "div", `row${t === key ? " answers" : ""}${later ? " later" : ""}`);
    const bar = element("i");
    if (!later) Object.assign(bar.style, { marginLeft: share(Math.min(0, value(t)) - low), width: share(Math.abs(value(t))) });
    row.append(element("b", "", text), ...(later ? [element("small", "", "masked: comes later")] : cells(t).map((cell) => element("small", "", cell))));
    const track = element("span", "track", bar);
    track.style.setProperty("--zero", share(-low));
    row.append(track);
    if (!later) row.dataset.value = value(t);
    if (choose && !later) {
      row.type = "button";
      row.setAttribute("aria-pressed", t === key);
      row.setAttribute("aria-label", `${text}: ${cells(t).join(", ")}`);
      row.addEventListener("click", () => choose(t));
    }
    return row;
  })];
}

const strips = {
  vectors({ q, k, texts, query, key }) {
    return vectorRows([
      { name: `query of “${texts[query]}”`, values: q, kind: "query" },
      { name: `key of “${texts[key]}”`, values: k, kind: "key" },
    ]);
  },

  product({ q, k, score }) {
    const sum = element("p", "sum", "sum: ", element("b", "", signed(score)));
    sum.lastChild.dataset.value = score;
    return [...vectorRows([{ name: "query × key", values: q.map((v, d) => v * k[d]), kind: "product" }]), sum];
  },

  scale({ texts, query, key, scores, size }) {
    return wordRows(texts, query, key, {
      names: ["score", `÷ √${size}`], cells: (t) => [signed(scores[t] * Math.sqrt(size)), signed(scores[t])], value: (t) => scores[t],
    });
  },

  softmax({ texts, query, key, scores, weights, chooseKey }) {
    return wordRows(texts, query, key, {
      names: ["e^score", "weight"], cells: (t) => [power(Math.exp(scores[t])), percent(weights[t])], value: (t) => weights[t],
      choose: chooseKey,
    });
  },

  values({ texts, query, key, weights, values, z }) {
    const strong = [...weights.keys()].filter((t) => t <= query).sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    if (!strong.includes(key) && key <= query) strong[strong.length - 1] = key;
    const rows = strong.sort((a, b) => a - b).map((t) => ({
      name: `${percent(weights[t])} of “${texts[t]}”`, values: values[t].map((v) => v * weights[t]), kind: "value",
    }));
    return vectorRows([...rows, { name: "sum of all", values: z, kind: "total" }]);
  },

  stream({ stages }) {
    return vectorRows(stages.map(({ name, values, guess }) =>
      ({ name, values, kind: "stage", end: element("span", "end", element("b", "", guess.word), element("small", "", percent(guess.chance))) })), { numbers: false });
  },
};
