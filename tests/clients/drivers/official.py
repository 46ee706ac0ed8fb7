"""The client of `mcp` 2.x, in both eras."""

import asyncio
from typing import Any

import mcp_types
from lines import Action, Report, connection, serve, tell
from mcp import StdioServerParameters
from mcp.client.client import Client
from mcp.client.subscriptions import ResourceUpdated
from python import MODE, MODERN, answer, answer_to, cancelled, on_message, text_of


async def on_question(context: object, params: mcp_types.ElicitRequestParams) -> mcp_types.ElicitResult:
    return answer_to(params)


client = Client(
    connection.get("url") or StdioServerParameters(**connection["server"]),
    mode=MODE,
    elicitation_callback=on_question,
    message_handler=on_message,
)


async def list_all(report: Report) -> dict[str, list[str]]:
    templates = (await client.list_resource_templates()).resource_templates
    return {
        "tools": [tool.name for tool in (await client.list_tools()).tools],
        "resources": [resource.uri for resource in (await client.list_resources()).resources],
        "templates": [template.uri_template for template in templates],
        "prompts": [prompt.name for prompt in (await client.list_prompts()).prompts],
    }


async def call(report: Report, tool: str, arguments: dict[str, Any]) -> dict[str, object]:
    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        report(progress=progress, total=total, message=message)

    result = await client.call_tool(tool, arguments, progress_callback=on_progress)
    return {
        "text": text_of(result.content),
        "structured": result.structured_content,
        "isError": bool(result.is_error),
    }


async def read(report: Report, uri: str) -> str:
    return text_of((await client.read_resource(uri)).contents)


async def get_prompt(report: Report, name: str, arguments: dict[str, str]) -> str:
    [message] = (await client.get_prompt(name, arguments)).messages
    return text_of([message.content])


async def complete(report: Report, prompt: str, argument: dict[str, str]) -> list[str]:
    return (await client.complete(mcp_types.PromptReference(name=prompt), argument)).completion.values


async def subscribe(report: Report, uri: str) -> None:
    if MODERN:
        async with client.listen(tools_list_changed=True, resource_subscriptions=[uri]) as subscription:
            report(subscribed=True)
            async for event in subscription:
                tell(changed=event.uri if isinstance(event, ResourceUpdated) else "tools")
    else:
        await client.subscribe_resource(uri)
        report(subscribed=True)
        await cancelled()


ACTIONS: dict[str, Action] = {
    "list": list_all,
    "call": call,
    "read": read,
    "prompt": get_prompt,
    "complete": complete,
    "subscribe": subscribe,
    "answer": answer,
}


async def main() -> None:
    async with client:
        await serve(client.protocol_version, ACTIONS)


asyncio.run(main())
