/* Django's actions of a list know the boxes that it was loaded with. This gives them those that it has now. */
"use strict";
{
    const boxes = () => [...document.querySelectorAll("#result_list input.action-select:enabled")];
    const current = new Proxy([], {
        get(_, name) {
            const now = boxes();
            return typeof now[name] === "function" ? now[name].bind(now) : now[name];
        },
    });
    const bind = window.Actions;
    let is_bound = false;

    window.Actions = (_, options) => {
        is_bound = true;
        bind(current, options);
    };

    addEventListener("DOMContentLoaded", () => {
        const counter = document.querySelector("#changelist-form .action-counter");
        if (!counter) {
            return;
        }
        if (!is_bound) { /* a list that was empty */
            window.Actions();
        }
        const untick = () => { /* Django ticks "select all" where as many are selected as there are: none */
            if (!boxes().length) {
                document.getElementById("action-toggle").checked = false;
            }
        };
        untick();
        addEventListener("pageshow", untick);
        document.addEventListener("mcp:renewed", () => {
            const number = String(boxes().length);
            const is_across = document.querySelector("#changelist-form input.select-across").value === "1";
            if (!is_across && counter.dataset.actionsIcnt !== number) {
                counter.dataset.actionsIcnt = number;
                dispatchEvent(new Event("pageshow")); /* when Django counts anew */
            }
        });
    });
}
