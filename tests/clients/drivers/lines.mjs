// The driver's side of the protocol with a test: lines of JSON on standard input and output.
//
// The only argument of a driver is the server: {"era", "url"}, or {"era", "server": {"command", "args", "env", "cwd"}}.
// The driver sends {"opened": …} as soon as its client is connected. Then it replies to each line {"id", "do", "with"}
// with {"id", "value"} or {"id", "error"}, in the order in which the actions end. {"do": "cancel", "with": {"of",
// "reason"}} aborts the action of another line. Other events are sent as they occur, with {"of": id, …} if a line
// caused them. The end of input ends the client.

import { createInterface } from 'node:readline';

export const connection = JSON.parse(process.argv[2]);

export const tell = message => process.stdout.write(JSON.stringify(message) + '\n');

export async function serve(opened, actions) {
    const aborts = new Map();
    tell({ opened });
    for await (const line of createInterface({ input: process.stdin })) {
        const { id, do: name, with: details } = JSON.parse(line);
        if (name === 'cancel') {
            aborts.get(details.of).abort(details.reason);
            continue;
        }
        const abort = new AbortController();
        aborts.set(id, abort);
        actions[name](details, { signal: abort.signal, report: message => tell({ of: id, ...message }) })
            .then(value => tell({ id, value: value ?? null }))
            .catch(error => tell({ id, error: String(error) }));
    }
}
