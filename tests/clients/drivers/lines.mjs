// The driver's side of a conversation with a test: one line of JSON each way, on standard input and output.
//
// Its one argument is what to connect to: {"era", "url"}, or {"era", "server": {"command", "args", "env", "cwd"}}. It
// says {"opened": …} once its client is connected. From then on a line {"id", "do", "with"} is answered with
// {"id", "value"} or {"id", "error"}, in whatever order they end; {"do": "cancel", "with": {"of", "reason"}} aborts
// another line. What happens meanwhile is told as it comes: {"of": id, …} where a line caused it. The end of input ends
// the client.

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
