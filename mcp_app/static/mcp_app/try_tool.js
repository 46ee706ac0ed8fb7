/* One call for one press of the button: a second press, while the answer to the first is under way, is none. */
"use strict";
{
    let isSent = false;

    addEventListener("submit", (event) => {
        if (event.target.id !== "mcp-try") {
            return;
        }
        if (isSent) {
            event.preventDefault();
        }
        isSent = true;
    });

    /* Back on a page that the browser kept. */
    addEventListener("pageshow", () => {
        isSent = false;
    });
}
