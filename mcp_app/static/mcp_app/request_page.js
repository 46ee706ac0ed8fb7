/* Keeps the page of an open request as it is now: asks for the part that moves, replaces what differs, stops at the end. */
"use strict";
{
    const EVERY = 1000;
    const AFTER_A_FAILURE = 5000;
    const live = () => document.getElementById("mcp-live");

    /* Changes only what differs, so that a selection, a focus and a scrolled box outlast it. */
    const renew = (old, fresh) => {
        if (old.isEqualNode(fresh)) {
            return;
        }
        const [before, after] = [[...old.childNodes], [...fresh.childNodes]];
        if (!(old instanceof Element) || old.nodeName !== fresh.nodeName || before.length !== after.length) {
            old.replaceWith(fresh);
            return;
        }
        old.getAttributeNames().filter((name) => !fresh.hasAttribute(name)).forEach((name) => old.removeAttribute(name));
        fresh.getAttributeNames().forEach((name) => old.setAttribute(name, fresh.getAttribute(name)));
        before.forEach((child, index) => renew(child, after[index]));
    };

    const look = async () => {
        const response = await fetch(live().dataset.url, {credentials: "same-origin", cache: "no-store"});
        if (response.status >= 500) {
            return AFTER_A_FAILURE;
        }
        const answer = new DOMParser().parseFromString(await response.text(), "text/html");
        const fresh = answer.getElementById("mcp-live");
        if (!response.ok || !fresh) {
            return null; /* logged out, or it is gone */
        }
        renew(live(), fresh);
        if (!("cancellable" in live().dataset)) {
            document.getElementById("mcp-cancel")?.remove();
        }
        return EVERY;
    };

    const watch = async () => {
        let pause = EVERY;
        if (!document.hidden) {
            pause = await look().catch(() => AFTER_A_FAILURE);
        }
        if (pause !== null && "open" in live().dataset) {
            setTimeout(watch, pause);
        }
    };

    addEventListener("DOMContentLoaded", () => {
        if (live() && "open" in live().dataset) {
            setTimeout(watch, EVERY);
        }
    });
}
