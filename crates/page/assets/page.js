// Draws the charts of a page, sorts its tables, and switches between light and dark.
//
// A chart names the paths of its numbers in the page's JSON (crates/page/src/path.rs has their
// rule). With `#drawn` behind the address the page writes what the charts show into an element
// `drawn`, for tests.
"use strict";
(() => {
  const text = (id) => document.getElementById(id).textContent;
  const data = JSON.parse(text("data"));
  const specs = JSON.parse(text("charts"));

  // ---- Numbers ----

  const find = (path) => path.split("/").slice(1).reduce((found, part) => {
    if (part === "*") return found.flat();
    const key = part.replaceAll("~2", "*").replaceAll("~1", "/").replaceAll("~0", "~");
    return found.map((value) => value?.[key] ?? null);
  }, [data]);

  const values = (series, path) => {
    const found = find(path);
    return series.rows ? series.rows.map((row) => found[row]) : found;
  };

  const plain = (n, digits = 2) => n.toLocaleString("en", { maximumFractionDigits: digits });
  const scaled = (n, units, by) => {
    let at = 0;
    while (Math.abs(n) >= by && at + 1 < units.length) { n /= by; at += 1; }
    return `${plain(n, n < 10 ? 2 : 1)} ${units[at]}`;
  };
  const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  const shown = {
    count: (n) => plain(n),
    bytes: (n) => scaled(n, BINARY, 1024),
    kibibytes: (n) => scaled(n, BINARY.slice(1), 1024),
    nanoseconds: (n) => scaled(n, ["ns", "µs", "ms", "s"], 1000),
    seconds: (n) => (Math.abs(n) < 1 && n !== 0 ? scaled(n * 1e9, ["ns", "µs", "ms"], 1000) : `${plain(n)} s`),
    share: (n) => `${plain(n * 100)} %`,
    name: String,
  };
  const format = (unit, value) =>
    Array.isArray(value) ? value.map((n) => shown[unit](n)).join(" to ") : shown[unit](value);

  // Between two ticks, 1, 2 or 5 of a power of ten, of a unit that is a power of 1024.
  const step = (unit, span, ticks) => {
    const least = span / ticks;
    let base = 1;
    if (unit === "bytes" || unit === "kibibytes") while (span >= base * 1024) base *= 1024;
    if (unit === "count" && least < 1) return 1;
    const power = 10 ** Math.floor(Math.log10(least / base));
    return [1, 2, 5, 10].find((n) => n * power * base >= least * 0.999) * power * base;
  };

  // ---- Colours ----

  // Okabe and Ito's, which people with any colour vision tell apart, darker where paper is white.
  const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#b8608f", "#c98a00", "#3d9bd0", "#7a5c3e", "#5c6370"];
  const DARK = ["#56b4e9", "#f0803c", "#2fc79a", "#dc95bc", "#f0b83c", "#8fd0f5", "#c4a484", "#a7aeba"];
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;
  const isDark = () => !printing && (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const colour = (nth) => (isDark() ? DARK : LIGHT)[nth % LIGHT.length];
  const ink = () => (isDark()
    ? { text: "#c5cad3", line: "#343841" }
    : { text: "#40454e", line: "#e3e6ea" });

  Chart.defaults.plugins.colors.enabled = false;
  const paint = (chart) => {
    const { text: words, line } = ink();
    chart.data.datasets.forEach((set) => {
      set.borderColor = colour(set.nth);
      set.backgroundColor = set.isUpper ? `${colour(set.nth)}70` : colour(set.nth);
      set.pointBackgroundColor = colour(set.nth);
    });
    for (const axis of Object.values(chart.options.scales)) {
      axis.ticks.color = words;
      axis.title.color = words;
      axis.grid.color = line;
    }
    chart.options.plugins.legend.labels.color = words;
  };

  // ---- Charts ----

  const LYING = ["bars", "stacked"];
  const STANDING = ["histogram"];

  const axis = (spec, kind, isValue) => {
    const named = !isValue && [...LYING, ...STANDING].includes(kind);
    const made = {
      type: named ? "category" : "linear",
      title: { display: spec.title !== "", text: spec.title },
      grid: { display: isValue || kind === "scatter" },
      ticks: { autoSkip: kind !== "bars" && kind !== "stacked", maxRotation: 0 },
    };
    if (named) {
      if (spec.unit !== "name") made.ticks.callback = function label(at) {
        const value = this.getLabelForValue(at);
        return typeof value === "number" ? format(spec.unit, value) : value;
      };
      return made;
    }
    made.beginAtZero = isValue && kind !== "scatter";
    made.ticks.callback = (n) => format(spec.unit, n);
    made.afterDataLimits = (scale) => {
      const room = scale.isHorizontal() ? scale.chart.width / 110 : 6;
      const [low, high] = [scale.min, scale.max];
      if (high > low) scale.options.ticks.stepSize = step(spec.unit, high - low, Math.max(2, room));
    };
    // Curves end where their data ends.
    if (!isValue && kind !== "scatter") {
      made.afterBuildTicks = (scale) => {
        const ends = scale.chart.data.datasets.flatMap((set) => set.data.map((point) => point.x));
        const low = ends.reduce((a, b) => Math.min(a, b), Infinity);
        const high = ends.reduce((a, b) => Math.max(a, b), -Infinity);
        // One point has its place where there is room around it.
        if (low >= high) return;
        [scale.min, scale.max] = [low, high];
        scale.ticks = scale.ticks.filter((tick) => tick.value >= scale.min && tick.value <= scale.max);
      };
    }
    return made;
  };

  // The sets of Chart.js that a series is: one, or with ranges two, of which the upper, paler one
  // begins where the lower one ends.
  const datasets = (spec, series, nth) => {
    const set = dataset(spec, series, nth);
    if (spec.kind !== "bars") return [set];
    const ranges = set.data;
    const low = { ...set, ranges, stack: String(nth), data: ranges.map((v) => (Array.isArray(v) ? v[0] : v)) };
    if (!ranges.some(Array.isArray)) return [low];
    const rest = ranges.map((v) => (Array.isArray(v) ? v[1] - v[0] : null));
    return [low, { ...low, data: rest, isUpper: true }];
  };

  const dataset = (spec, series, nth) => {
    const [x, y] = [values(series, series.x), values(series, series.y)];
    const labels = series.labels ? values(series, series.labels) : [];
    const common = { label: series.name, nth, words: labels, borderWidth: 2 };
    switch (spec.kind) {
      case "bars":
      case "stacked":
      case "histogram":
        return { ...common, data: y, names: x, borderWidth: 0, maxBarThickness: 28 };
      case "areas":
        return { ...common, data: x.map((at, nth) => ({ x: at, y: y[nth] })),
          fill: nth === 0 ? "origin" : "-1", borderWidth: 0, pointRadius: 0, pointHitRadius: 8 };
      case "lines":
        return { ...common, data: x.map((at, nth) => ({ x: at, y: y[nth] })),
          pointRadius: x.length > 60 ? 0 : 2, pointHitRadius: 8 };
      default:
        return { ...common, data: x.map((at, nth) => ({ x: at, y: y[nth] })),
          showLine: series.connected, order: series.connected ? 0 : 1,
          pointRadius: series.connected ? 5 : 4, pointHoverRadius: 7 };
    }
  };

  // Which value of a point is the measured one.
  const measured = (spec, item) => {
    if (item.dataset.ranges) return item.dataset.ranges[item.dataIndex];
    return LYING.includes(spec.kind) || STANDING.includes(spec.kind) ? item.raw : item.raw.y;
  };

  const tooltip = (spec) => {
    const curves = spec.kind === "lines" || spec.kind === "areas";
    const sums = spec.kind === "areas" || spec.kind === "stacked";
    return {
      mode: spec.kind === "scatter" ? "nearest" : "index",
      axis: LYING.includes(spec.kind) ? "y" : "x",
      intersect: spec.kind === "scatter",
      itemSort: (a, b) => (curves ? b.parsed.y - a.parsed.y : a.datasetIndex - b.datasetIndex),
      filter: (item) => !item.dataset.isUpper && measured(spec, item) !== null,
      callbacks: {
        title: (items) => {
          if (items.length === 0 || spec.kind === "scatter") return "";
          const item = items[0];
          return curves ? `${spec.x.title} ${format(spec.x.unit, item.raw.x)}`
            : format(spec.x.unit, item.dataset.names[item.dataIndex]);
        },
        label: (item) => {
          const value = format(spec.y.unit, measured(spec, item));
          if (spec.kind !== "scatter") return ` ${item.dataset.label}: ${value}`;
          const words = item.dataset.words[item.dataIndex] ?? item.dataset.label;
          return [` ${words}`, `${spec.x.title}: ${format(spec.x.unit, item.raw.x)}`,
            `${spec.y.title}: ${value}`];
        },
        footer: (items) => {
          if (!sums || items.length < 2) return "";
          const all = items.reduce((sum, item) => sum + measured(spec, item), 0);
          return `together: ${format(spec.y.unit, all)}`;
        },
      },
    };
  };

  const draw = (canvas, spec) => {
    const lying = LYING.includes(spec.kind);
    const bars = lying || STANDING.includes(spec.kind);
    const sets = spec.series.flatMap((series, nth) => datasets(spec, series, nth));
    if (lying) {
      const each = spec.kind === "stacked" ? 1.6 : 0.4 + 1.1 * spec.series.length;
      const rows = Math.max(0, ...sets.map((set) => set.data.length));
      canvas.parentElement.style.height = `${6 + rows * each}rem`;
    }
    const [across, up] = [axis(spec.x, spec.kind, false), axis(spec.y, spec.kind, true)];
    if (spec.kind === "areas") up.stacked = true;
    if (spec.kind === "stacked") { across.stacked = true; up.stacked = true; }
    const chart = new Chart(canvas, {
      type: bars ? "bar" : spec.kind === "scatter" ? "scatter" : "line",
      data: { datasets: sets, labels: bars && sets.length > 0 ? sets[0].names : undefined },
      options: {
        animation: false,
        responsive: true,
        maintainAspectRatio: false,
        indexAxis: lying ? "y" : "x",
        normalized: true,
        interaction: { mode: tooltip(spec).mode, axis: tooltip(spec).axis, intersect: tooltip(spec).intersect },
        scales: lying ? { x: up, y: across } : { x: across, y: up },
        plugins: {
          legend: {
            display: spec.series.length > 1,
            align: "start",
            labels: { boxWidth: 12, boxHeight: 12, padding: 14, filter: (item, data) => !data.datasets[item.datasetIndex].isUpper },
            onClick: (event, item, legend) => {
              const { nth } = legend.chart.data.datasets[item.datasetIndex];
              const shows = !legend.chart.isDatasetVisible(item.datasetIndex);
              legend.chart.data.datasets.forEach((set, at) => {
                if (set.nth === nth) legend.chart.setDatasetVisibility(at, shows);
              });
              legend.chart.update();
            },
          },
          tooltip: tooltip(spec),
        },
      },
    });
    chart.spec = spec;
    paint(chart);
    chart.update();
    return chart;
  };

  const canvases = [...document.querySelectorAll("figure canvas")];
  const charts = specs.map((spec, nth) => draw(canvases[nth], spec));
  const repaint = () => charts.forEach((chart) => { paint(chart); chart.update(); });

  // ---- Light, dark, paper ----

  document.getElementById("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    repaint();
  });
  system.addEventListener("change", repaint);
  const print = (begins) => () => {
    printing = begins;
    repaint();
    charts.forEach((chart) => chart.resize());
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));

  document.getElementById("save").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text("data")], { type: "application/json" }));
    link.download = `${document.title.replace(/[^\w.-]+/g, "-")}.json`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });

  // ---- Tables ----

  const sort = (head) => {
    const table = head.closest("table");
    const column = [...head.parentElement.children].indexOf(head);
    // Numbers from the largest, words from a to z; then the other way round.
    const first = head.classList.contains("number") ? "descending" : "ascending";
    const order = head.ariaSort === first ? { ascending: "descending", descending: "ascending" }[first] : first;
    for (const other of table.querySelectorAll("th")) other.ariaSort = null;
    head.ariaSort = order;
    const sign = order === "ascending" ? 1 : -1;
    const compare = (a, b) => {
      const [x, y] = [a, b].map((row) => row.children[column]);
      if (first === "ascending") return sign * x.textContent.localeCompare(y.textContent, "en", { numeric: true });
      const [m, n] = [x, y].map((cell) => (cell.dataset.value === undefined ? null : Number(cell.dataset.value)));
      if (m === null || n === null) return (m === null) - (n === null);
      return sign * (m - n);
    };
    const body = table.tBodies[0];
    body.append(...[...body.rows].sort(compare));
  };
  for (const head of document.querySelectorAll("th")) {
    head.tabIndex = 0;
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }

  // ---- For tests ----

  if (location.hash === "#drawn") {
    // What a reader's mouse does: light and dark, a table by each column, a point of each chart.
    document.getElementById("theme").click();
    document.querySelectorAll("th").forEach((head) => head.click());
    const hovered = (chart) => {
      const sets = chart.data.datasets;
      const isKnown = (value) => Number.isFinite(value?.y ?? value);
      const at = sets.findIndex((set) => set.data.some(isKnown));
      if (at < 0) return [];
      const index = sets[at].data.findLastIndex(isKnown);
      const { x, y } = chart.getDatasetMeta(at).data[index];
      const points = sets.map((set, nth) => ({ datasetIndex: nth, index }))
        .filter(({ datasetIndex: nth }) => (chart.spec.kind === "scatter" ? nth === at : isKnown(sets[nth].data[index])));
      chart.tooltip.setActiveElements(points, { x, y });
      chart.update();
      return [...chart.tooltip.title, ...chart.tooltip.body.flatMap((item) => item.lines), ...chart.tooltip.footer];
    };
    // What Chart.js has, by series; `points` are the elements that have a place on the canvas.
    const drawn = charts.map((chart) => ({
      title: chart.spec.title,
      hovered: hovered(chart),
      series: chart.spec.series.map(({ x, y, rows }, nth) => {
        const sets = chart.data.datasets.map((set, at) => [set, at]).filter(([set]) => set.nth === nth);
        const [[set, at], upper] = sets;
        const bars = set.names !== undefined;
        const high = (low, row) => (upper && upper[0].data[row] !== null ? [low, low + upper[0].data[row]] : low);
        const placed = chart.getDatasetMeta(at).data.filter((e) => Number.isFinite(e.x) && Number.isFinite(e.y));
        return { x: { path: x, values: bars ? set.names : set.data.map((p) => p.x) },
          y: { path: y, values: bars ? set.data.map(high) : set.data.map((p) => p.y) },
          rows, points: placed.length };
      }),
    }));
    const element = document.createElement("pre");
    element.id = "drawn";
    element.textContent = JSON.stringify(drawn);
    document.body.append(element);
  }
})();
