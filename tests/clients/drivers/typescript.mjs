// Code that the TypeScript clients share, because their methods have the same names.

import { once } from 'node:events';
import { connection, serve, tell } from './lines.mjs';

export const info = { name: 'typescript', version: '1' };
export const capabilities = { elicitation: { form: {} } };

let answers = [];

// The handlers of a client.
export function onQuestion({ params }) {
    tell({ asked: params.message, fields: Object.keys(params.requestedSchema.properties) });
    return answers.shift();
}
export const onToolsChanged = () => tell({ changed: 'tools' });
export const onResourceUpdated = ({ params }) => tell({ changed: params.uri });

const each = (items, key) => items.map(item => item[key]);

// Connect a client with one of its two transports, serve, and leave properly: end the session, if there is one.
//
// The clients differ in `callTool(params, options)`, `subscribe(uri)`, which returns its end, and `version(transport)`.
export async function drive(client, { Http, Stdio, callTool, subscribe, version }) {
    const transport = connection.url
        ? new Http(new URL(connection.url))
        : new Stdio({ ...connection.server, stderr: 'inherit' });
    client.onerror = error => console.error(error);
    await client.connect(transport);
    await serve({ version: version(transport) }, {
        list: async () => ({
            tools: each((await client.listTools()).tools, 'name'),
            resources: each((await client.listResources()).resources, 'uri'),
            templates: each((await client.listResourceTemplates()).resourceTemplates, 'uriTemplate'),
            prompts: each((await client.listPrompts()).prompts, 'name'),
        }),
        call: async ({ tool, arguments: args }, { signal, report }) => {
            const result = await callTool({ name: tool, arguments: args }, { signal, onprogress: report });
            const { content, structuredContent = null, isError = false } = result;
            return { text: content[0].text, structured: structuredContent, isError };
        },
        read: async ({ uri }) => (await client.readResource({ uri })).contents[0].text,
        prompt: async details => (await client.getPrompt(details)).messages[0].content.text,
        complete: async ({ prompt, argument }) =>
            (await client.complete({ ref: { type: 'ref/prompt', name: prompt }, argument })).completion.values,
        subscribe: async ({ uri }, { signal, report }) => {
            const unsubscribe = await subscribe(uri);
            report({ subscribed: true });
            await once(signal, 'abort');
            await unsubscribe();
        },
        answer: async details => {
            answers = details.answers;
        },
    });
    await transport.terminateSession?.();
    await client.close();
}
