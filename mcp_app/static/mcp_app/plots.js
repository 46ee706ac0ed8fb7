/*
 * Draws the plots of the dashboard by Chart.js, from the JSON beside them, in the colours of the admin as it looks now: its
 * theme may be switched. Every series has a pattern or dashes of its own, too. The tables are there without this.
 */
"use strict";
{
    const HATCHES = {failed: "///", lost: "xxx", cancelled: "...", "stage-cooperative": "...", "stage-interrupt": "///", "stage-kill": "xxx"};
    const LINES = {
        p50: {borderDash: [], pointStyle: "circle"},
        p95: {borderDash: [6, 4], pointStyle: "triangle"},
        failed: {borderDash: [], pointStyle: "circle"},
        "cancelled-share": {borderDash: [6, 4], pointStyle: "triangle"},
    };
    const SECONDS = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000];
    const STEPS = [[3600, "h"], [60, "min"], [1, "s"], [0, "ms"]];
    const TILE = 8;
    const FEW = 12;
    const charts = new Map();

    const length = (seconds) => {
        const [step, unit] = STEPS.find(([least]) => seconds >= least);
        return `${Number((seconds / (step || 0.001)).toPrecision(3))} ${unit}`;
    };
    const WORDS = {
        calls: (value) => value.toLocaleString(),
        share: (value) => `${Number((value * 100).toPrecision(3))} %`,
        seconds: length,
    };

    /* A variable of the style sheet, as it is now. */
    const colour = (name) => getComputedStyle(document.querySelector(".mcp-plots")).getPropertyValue(`--${name}`).trim();

    const hatched = (look) => {
        const ground = colour(`mcp-look-${look}`);
        if (!(look in HATCHES)) {
            return ground;
        }
        const tile = Object.assign(document.createElement("canvas"), {width: TILE, height: TILE});
        const pen = tile.getContext("2d");
        pen.fillStyle = ground;
        pen.fillRect(0, 0, TILE, TILE);
        pen.strokeStyle = pen.fillStyle = colour("mcp-hatch");
        pen.beginPath();
        if (HATCHES[look] === "...") {
            pen.arc(TILE / 2, TILE / 2, 1.25, 0, 2 * Math.PI);
            pen.fill();
        } else {
            [-TILE, 0, TILE].forEach((x) => {
                pen.moveTo(x, TILE);
                pen.lineTo(x + TILE, 0);
                if (HATCHES[look] === "xxx") {
                    pen.moveTo(x, 0);
                    pen.lineTo(x + TILE, TILE);
                }
            });
            pen.stroke();
        }
        return pen.createPattern(tile, "repeat");
    };

    const dataset = (plot, {name, look, values}) => {
        const ink = colour(`mcp-look-${look}`);
        if (plot.shape === "lines") {
            const line = {...LINES[look], pointRadius: values.length > FEW ? 1.5 : 3, borderWidth: 2, borderColor: ink, backgroundColor: ink};
            return {label: name, data: values, ...line};
        }
        return {label: name, data: values, backgroundColor: hatched(look), borderColor: colour("body-fg"), borderWidth: 0.5};
    };

    /* The axis of the numbers: lengths by powers of ten, everything else from nothing on. */
    const measured = (plot, grid) => {
        const ticks = {color: grid.ink, callback: (value) => WORDS[plot.unit](value)};
        if (plot.unit !== "seconds") {
            const whole = plot.unit === "calls" ? {precision: 0} : {};
            return {stacked: plot.shape !== "lines", beginAtZero: true, ticks: {...ticks, ...whole}, grid};
        }
        const afterBuildTicks = (axis) => {
            axis.ticks = SECONDS.filter((value) => value >= axis.min && value <= axis.max).map((value) => ({value}));
        };
        const known = plot.series.flatMap((each) => each.values).filter((value) => value !== null);
        const [least, most] = known.length ? [Math.min(...known), Math.max(...known)] : [SECONDS[0], 1];
        const min = SECONDS.findLast((value) => value < least) ?? SECONDS[0] / 10;
        const max = SECONDS.find((value) => value >= most) ?? SECONDS.at(-1) * 10;
        return {type: "logarithmic", min, max, afterBuildTicks, ticks, grid};
    };

    const options = (plot) => {
        const key = plot.shape === "lines" ? {usePointStyle: true, boxHeight: 7} : {};
        const [ink, lines] = [colour("body-fg"), colour("hairline-color")];
        const grid = {color: lines, ink};
        const across = plot.shape === "across";
        const named = {stacked: plot.shape !== "lines", ticks: {color: ink, maxRotation: 0, autoSkip: !across, autoSkipPadding: 10}, grid: {display: false}};
        const label = (item) => `${item.dataset.label}: ${WORDS[plot.unit](item.parsed[across ? "x" : "y"])}`;
        return {
            animation: false, /* what renews itself while one looks elsewhere does not move */
            maintainAspectRatio: false,
            indexAxis: across ? "y" : "x",
            interaction: {mode: "index", axis: across ? "y" : "x", intersect: false},
            scales: {[across ? "y" : "x"]: named, [across ? "x" : "y"]: measured(plot, grid)},
            plugins: {
                legend: {position: "bottom", labels: {color: ink, ...key}},
                tooltip: {callbacks: {label}},
            },
        };
    };

    /* Draws one plot; where it is drawn already, anew with what is so now. */
    const draw = (place, plot) => {
        const data = {labels: plot.labels, datasets: plot.series.map((each) => dataset(plot, each))};
        const drawn = charts.get(place.dataset.plot);
        if (drawn) {
            Object.assign(drawn, {data, options: options(plot)});
            drawn.update("none");
            return;
        }
        const canvas = document.createElement("canvas");
        canvas.setAttribute("role", "img");
        place.append(canvas);
        place.hidden = false;
        place.parentElement.querySelector("details").open = false;
        charts.set(place.dataset.plot, new Chart(canvas, {type: plot.shape === "lines" ? "line" : "bar", data, options: options(plot)}));
    };

    const drawAll = () => {
        const plots = JSON.parse(document.getElementById("mcp-plots-data").textContent);
        Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
        document.querySelectorAll("[data-plot]").forEach((place) => {
            draw(place, plots[place.dataset.plot]);
            place.firstElementChild.setAttribute("aria-label", plots[place.dataset.plot].said);
        });
    };

    addEventListener("DOMContentLoaded", () => {
        if (typeof Chart === "undefined") {
            return;
        }
        drawAll();
        document.addEventListener("mcp:renewed", (event) => event.target.id === "mcp-statistics" && drawAll());
        new MutationObserver(drawAll).observe(document.documentElement, {attributeFilter: ["data-theme"]});
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
    });
}
