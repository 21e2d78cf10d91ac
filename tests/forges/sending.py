"""Sends the requests of an adapter with the client that the server uses, to this machine."""

from ipaddress import ip_network

from terracrew.forges.contract import ForgeAnswer, ForgeAway, ForgeRequest, Send
from terracrew.server.outgoing.answers import NotSent
from terracrew.server.outgoing.client import OutgoingClient, OutgoingRequest
from terracrew.server.outgoing.destinations import Destinations

LOOPBACK = Destinations(networks=(ip_network("127.0.0.0/8"),))


def loopback_sender() -> Send:
    client = OutgoingClient(LOOPBACK)

    async def send(request: ForgeRequest) -> ForgeAnswer:
        outgoing = OutgoingRequest(request.url, request.method, request.headers, request.body)
        try:
            answer = await client.send("org_1", outgoing)
        except NotSent as error:
            raise ForgeAway(error.reason) from None
        return ForgeAnswer(answer.status, dict(answer.headers), answer.body)

    return send
