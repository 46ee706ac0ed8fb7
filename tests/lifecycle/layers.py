"""A channel layer that claims to cross processes and records the messages that are sent."""

import queue

from channels.layers import BaseChannelLayer

sent: queue.Queue[tuple[str, dict]] = queue.Queue()


class NotingLayer(BaseChannelLayer):
    extensions = ("groups",)

    async def group_send(self, group, message):
        sent.put((group, message))


class BrokenLayer(BaseChannelLayer):
    extensions = ("groups",)

    async def group_send(self, group, message):
        sent.put((group, message))
        raise ConnectionError("the layer is away")
