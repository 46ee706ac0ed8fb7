// @modelcontextprotocol/sdk 1.x, on which most installed clients are built. It has only the legacy era.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
    ElicitRequestSchema,
    ResourceUpdatedNotificationSchema,
    ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { capabilities, drive, info, onQuestion, onResourceUpdated, onToolsChanged } from './typescript.mjs';

// Over stdio, only the transport knows the negotiated revision.
class Stdio extends StdioClientTransport {
    setProtocolVersion(version) {
        this.protocolVersion = version;
    }
}

const client = new Client(info, { capabilities });
client.setRequestHandler(ElicitRequestSchema, async request => onQuestion(request));
client.setNotificationHandler(ToolListChangedNotificationSchema, onToolsChanged);
client.setNotificationHandler(ResourceUpdatedNotificationSchema, onResourceUpdated);

await drive(client, {
    Http: StreamableHTTPClientTransport,
    Stdio,
    callTool: (params, options) => client.callTool(params, undefined, options),
    subscribe: async uri => {
        await client.subscribeResource({ uri });
        return () => client.unsubscribeResource({ uri });
    },
    version: transport => transport.protocolVersion,
});
