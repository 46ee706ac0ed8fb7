/*
 * Keeps parts of a page as they are now. A part has an id, `data-url`, which answers with the same part, and `data-open` while
 * there is more to come; it is asked for each second, or after `data-every` seconds. What differs is replaced. Beside the parts:
 * `data-while="x"` goes with the part's own `data-x`; `data-stale` is shown while no answer comes; `data-kept` is left alone.
 */
"use strict";
{
    const EVERY = 1;
    const AFTER_A_FAILURE = 5;

    /* Changes only what differs, so that a selection, a focus, a scrolled box and what was folded outlast it. */
    const renew = (old, fresh) => {
        if (old.isEqualNode(fresh) || (old instanceof HTMLElement && "kept" in old.dataset)) {
            return;
        }
        const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
        if (!(old instanceof Element) || old.nodeName !== fresh.nodeName || before.length !== after.length) {
            old.replaceWith(fresh);
            return;
        }
        if (old instanceof HTMLDetailsElement) {
            fresh.open = old.open;
        }
        old.getAttributeNames().filter((name) => !fresh.hasAttribute(name)).forEach((name) => old.removeAttribute(name));
        fresh.getAttributeNames().forEach((name) => old.setAttribute(name, fresh.getAttribute(name)));
        before.forEach((child, index) => renew(child, after[index]));
    };

    /* The seconds to the next look, or null where there is none. */
    const look = async (id) => {
        const part = document.getElementById(id);
        const response = await fetch(part.dataset.url, {credentials: "same-origin", cache: "no-store"});
        if (response.status >= 500) {
            throw new Error(response.statusText);
        }
        const answer = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = answer.getElementById(id);
        if (!response.ok || !fresh) {
            return null; /* logged out, or it is gone */
        }
        renew(part, fresh);
        const now = document.getElementById(id);
        document.querySelectorAll("[data-while]").forEach((each) => each.dataset.while in now.dataset || each.remove());
        now.dispatchEvent(new Event("mcp:renewed", {bubbles: true}));
        return "open" in now.dataset ? Number(now.dataset.every ?? EVERY) : null;
    };

    const stale = new Set();

    const say = (id, current) => {
        stale[current ? "delete" : "add"](id);
        document.querySelectorAll("[data-stale]").forEach((each) => { each.hidden = !stale.size; });
    };

    const watch = async (id) => {
        let pause = EVERY;
        if (!document.hidden) {
            try {
                pause = await look(id);
                say(id, pause !== null || !("open" in document.getElementById(id).dataset));
            } catch {
                pause = AFTER_A_FAILURE;
                say(id, false);
            }
        }
        if (pause !== null) {
            setTimeout(watch, pause * 1000, id);
        }
    };

    addEventListener("DOMContentLoaded", () => {
        document.querySelectorAll("[data-url][data-open]").forEach((part) => {
            setTimeout(watch, Number(part.dataset.every ?? EVERY) * 1000, part.id);
        });
    });
}
