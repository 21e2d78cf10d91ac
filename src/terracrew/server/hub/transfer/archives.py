"""The source archive of an attempt's job."""

from litestar import get
from litestar.params import FromPath
from litestar.response import Stream

from terracrew.errors import NotFound
from terracrew.server.hub.transfer import own_attempt
from terracrew.server.hub.transfer.context import TransferCall
from terracrew.server.hub.transfer.object_streams import streamed


@get("/archive")
async def get_archive(request: TransferCall, job_id: FromPath[str], attempt: FromPath[int]) -> Stream:
    own = await own_attempt.current(request, job_id, attempt)
    if (archive := own.job.source.upload) is None:
        raise NotFound("this job's source is not an archive")
    return await streamed(request.context.objects, f"archives/{archive.archive_id}", "application/gzip")
