/* Keeps the page of an open request as it is now: asks for the part that moves, replaces what differs, stops at the end. */
"use strict";
{
    const EVERY = 1000;
    const AFTER_A_FAILURE = 5000;
    const live = () => document.getElementById("mcp-live");

    const replace = (fresh) => {
        const old = live();
        const unchanged = new Map([...old.children].map((part) => [part.id, part]));
        for (const part of [...fresh.children]) {
            const known = unchanged.get(part.id);
            if (known && known.outerHTML === part.outerHTML) {
                part.replaceWith(known);
            } else if (known) {
                keepScrolled(known, part);
            }
        }
        old.replaceWith(fresh);
        if (!("cancellable" in fresh.dataset)) {
            document.getElementById("mcp-cancel")?.remove();
        }
    };

    /* The browser forgets how far a box was scrolled when it is put in anew. */
    const keepScrolled = (known, part) => {
        const [from, to] = [known, part].map((section) => section.querySelector(".mcp-scroll"));
        if (from && to && (from.scrollTop || from.scrollLeft)) {
            const [top, left] = [from.scrollTop, from.scrollLeft];
            requestAnimationFrame(() => to.scrollTo({top, left, behavior: "instant"}));
        }
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
        replace(document.adoptNode(fresh));
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
