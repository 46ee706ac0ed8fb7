// @modelcontextprotocol/client 2.x, in both eras.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { connection } from './lines.mjs';
import { capabilities, drive, info, onQuestion, onResourceUpdated, onToolsChanged } from './typescript.mjs';

const modern = connection.era === 'modern';
const client = new Client(info, { capabilities, versionNegotiation: { mode: modern ? 'auto' : 'legacy' } });
client.setRequestHandler('elicitation/create', onQuestion);
client.setNotificationHandler('notifications/tools/list_changed', onToolsChanged);
client.setNotificationHandler('notifications/resources/updated', onResourceUpdated);

await drive(client, {
    Http: StreamableHTTPClientTransport,
    Stdio: StdioClientTransport,
    callTool: (params, options) => client.callTool(params, options),
    subscribe: async uri => {
        if (modern) {
            const subscription = await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] });
            return () => subscription.close();
        }
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
    },
    version: () => client.getNegotiatedProtocolVersion(),
});
