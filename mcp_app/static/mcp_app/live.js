/* Keeps parts of a page as they are now. A part is an element with an id, `data-live`, `data-open` and `data-url`: the
   address is asked every `data-every` milliseconds (1000), and what differs is taken from the element of the same id in
   the answer. It ends when that has no `data-open`, or is not there: logged out, or gone.
   Elsewhere in the answer, `data-along`: an element with an id that is renewed with it; `data-drop`: the id of one that
   the page is to drop. Inside of it, `data-rows`: see `renewRows`; `data-kept`: left alone. What was folded stays so. */
"use strict";
{
    const EVERY = 1000;
    const FIRST_RETRY = 2000;
    const LAST_RETRY = 30000;
    const PATIENCE = 15000;
    const REST = 3000; /* a pointer that has not moved for so long points at nothing */
    const LINGER = 10000;
    const LINGERING = 20;
    const TRYING = "Not up to date: the server does not answer. Trying again.";
    const ENDED = "No longer kept up to date: load the page again.";

    const leftAt = new WeakMap();
    const pointedAt = new WeakMap();

    /* Rows leave in time, also where nothing differs. */
    const hasRows = (node) => node instanceof Element && (node.matches("[data-rows]") || node.querySelector("[data-rows]"));

    /* Changes only what differs, so that a selection, a focus and a scrolled box outlast it. */
    const renew = (old, fresh) => {
        if (old.isEqualNode(fresh) && !hasRows(old)) {
            return;
        }
        if (old instanceof Element && "rows" in old.dataset) {
            renewRows(old, fresh);
            return;
        }
        if (old instanceof HTMLElement && "kept" in old.dataset) {
            return;
        }
        if (!(old instanceof Element) || old.nodeName !== fresh.nodeName) {
            old.replaceWith(fresh);
            return;
        }
        if (old instanceof HTMLDetailsElement) {
            fresh.open = old.open;
        }
        old.getAttributeNames().filter((name) => !fresh.hasAttribute(name)).forEach((name) => old.removeAttribute(name));
        fresh.getAttributeNames().forEach((name) => old.setAttribute(name, fresh.getAttribute(name)));
        /* The element itself stays in any case: somebody may watch it. */
        const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
        if (before.length === after.length) {
            before.forEach((child, index) => renew(child, after[index]));
        } else {
            old.replaceChildren(...after);
        }
    };

    /* Somebody points at the rows, is among them with the keyboard, or has ticked some: none comes or goes meanwhile. */
    const isHeld = (rows) => (
        performance.now() - (pointedAt.get(rows) ?? -REST) < REST ||
        rows.querySelector(":focus-visible") !== null ||
        rows.querySelector("input:checked:enabled") !== null
    );

    /* An element with `data-rows`: its children are known by their ids. Those with `data-left` in the answer have left:
       they stay for a moment where it says `ended`, and all of them for as long as the rows are held. */
    const renewRows = (rows, fresh) => {
        const held = isHeld(rows);
        const answered = new Set();
        let place = null;
        let waiting = 0;
        for (const row of [...fresh.children]) {
            const known = [...rows.children].find((each) => each.id === row.id);
            answered.add(row.id);
            if (known) {
                row.classList.toggle("selected", known.classList.contains("selected") && !("left" in row.dataset));
                renew(known, row);
                if ("left" in row.dataset) {
                    known.querySelectorAll("input").forEach((box) => {
                        box.checked = false;
                        box.disabled = true;
                    });
                    leftAt.set(known, leftAt.get(known) ?? performance.now());
                } else {
                    place = known;
                }
            } else if ("left" in row.dataset) {
                continue;
            } else if (held) {
                waiting += 1;
            } else {
                row.classList.add("mcp-came");
                place ? place.after(row) : rows.prepend(row);
                place = row;
            }
        }
        if (!held) {
            const left = [...rows.children].filter((row) => row.dataset.left === "ended");
            const old = new Set(left.slice(LINGERING));
            [...rows.children]
                .filter((row) => !answered.has(row.id) || old.has(row) || ("left" in row.dataset && !isLingering(row)))
                .forEach((row) => row.remove());
        }
        const note = document.querySelector(`[data-waiting-for="${rows.id}"]`);
        if (note) {
            note.hidden = !waiting;
            note.querySelector("b").textContent = waiting;
        }
    };

    const isLingering = (row) => row.dataset.left === "ended" && performance.now() - leftAt.get(row) < LINGER;

    const watch = (part) => {
        const state = document.createElement("p"); /* there before it says anything, so that screen readers notice */
        state.className = "mcp-note mcp-live-state";
        state.setAttribute("role", "status");
        part.before(state);
        let retry = FIRST_RETRY;
        let timer = null;

        const address = () => {
            const url = new URL(part.dataset.url, location.href);
            const shown = [...part.querySelectorAll("[data-rows] > [data-key]")].map((row) => row.dataset.key);
            if (shown.length) {
                url.searchParams.set("shown", shown.join(","));
            }
            return url;
        };

        const say = (words) => {
            if (state.textContent !== words) {
                state.textContent = words;
            }
        };

        const look = async () => {
            const signal = AbortSignal.timeout(PATIENCE);
            const response = await fetch(address(), {credentials: "same-origin", cache: "no-store", signal});
            if (response.status >= 500) {
                throw new Error(response.statusText);
            }
            const answer = new DOMParser().parseFromString(await response.text(), "text/html");
            const fresh = answer.getElementById(part.id);
            if (!response.ok || !fresh) {
                say(ENDED);
                return false;
            }
            /* Found before anything is renewed: what is taken from the answer is not in it any more. */
            const along = [...answer.querySelectorAll("[data-along]")];
            const dropped = [...answer.querySelectorAll("[data-drop]")].map((each) => each.dataset.drop);
            renew(part, fresh);
            for (const each of along) {
                const known = document.getElementById(each.id);
                known && renew(known, each);
            }
            for (const id of dropped) {
                document.getElementById(id)?.remove();
            }
            part.dispatchEvent(new CustomEvent("mcp:renewed", {bubbles: true}));
            say("");
            return "open" in part.dataset;
        };

        const next = async () => {
            timer = null;
            let open = true;
            let pause = Number(part.dataset.every) || EVERY;
            try {
                open = await look();
                retry = FIRST_RETRY;
            } catch {
                say(TRYING);
                pause = retry;
                retry = Math.min(2 * retry, LAST_RETRY);
            }
            if (!open) {
                document.removeEventListener("visibilitychange", schedule);
            } else if (!document.hidden) {
                timer = setTimeout(next, pause);
            } else {
                timer = undefined;
            }
        };

        /* A hidden page asks nothing; one that is seen again asks at once. */
        const schedule = () => {
            if (document.hidden) {
                if (timer) {
                    clearTimeout(timer);
                    timer = undefined;
                }
            } else if (timer === undefined) {
                next();
            }
        };

        document.addEventListener("visibilitychange", schedule);
        part.addEventListener("pointermove", (event) => {
            const rows = event.target.closest("[data-rows]");
            rows && pointedAt.set(rows, performance.now());
        });
        timer = document.hidden ? undefined : setTimeout(next, Number(part.dataset.every) || EVERY);
    };

    addEventListener("DOMContentLoaded", () => {
        document.querySelectorAll("[data-scripted]").forEach((each) => { each.hidden = false; });
        document.querySelectorAll("[data-live][data-open]").forEach(watch);
    });
}
