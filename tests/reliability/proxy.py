"""A TCP proxy on 127.0.0.1 whose lines can be made slow, silent, or cut.

    with Proxies() as proxies:
        link = proxies.add("127.0.0.1:2222")    # Clients connect to link.address.
        link.condition = Condition(silent="both")
        link.condition = Condition()            # The fault is over.

One thread moves all bytes. A silent line keeps what it is given, and delivers it when it is no
longer silent, as TCP does by sending again. Nothing here knows of TensorFlow.
"""

import asyncio
import contextlib
import dataclasses
import math
import socket
import struct
import threading

OUT, BACK = "out", "back"
_CHUNK = 1 << 16
_TICK_SECS = 0.01


@dataclasses.dataclass(frozen=True)
class Condition:
    """The condition of a link; the default is a link without faults.

    Attributes:
      delay_secs: Seconds that each byte takes, in each direction.
      bytes_per_sec: Bytes that each connection moves per second, in each direction.
      silent: Direction in which nothing moves, ends of connections included: "out" (to the server),
        "back", "both", or "".
      loses: If True, a silent direction loses its bytes, and its connections are reset when it is
        no longer silent.
      resets: If True, all connections are reset, new ones too.
    """

    delay_secs: float = 0.0
    bytes_per_sec: float = math.inf
    silent: str = ""
    loses: bool = False
    resets: bool = False

    def is_silent(self, direction):
        return self.silent in (direction, "both")


class Proxies:
    """Links of one test, moved by one thread; a context manager."""

    def __init__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._links = []

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        for link in self._links:
            self._wait(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, address):
        """Returns a new link to "host:port"."""
        link = Link(address, self._loop)
        self._wait(link.open())
        self._links.append(link)
        return link

    def _wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)


class Link:
    """A port of 127.0.0.1 that leads to a server.

    Attributes:
      address: The port, as "127.0.0.1:port".
    """

    def __init__(self, server, loop):
        self.address = None
        self._server = server
        self._loop = loop
        self._condition = Condition()
        self._lines = set()

    @property
    def condition(self):
        """Condition of all connections, present and future."""
        return self._condition

    @condition.setter
    def condition(self, condition):
        self._loop.call_soon_threadsafe(self._change, condition)

    def forget(self):
        """Makes the present connections silent for ever, as a firewall does that forgets them.

        Neither end is told. New connections are not affected.
        """
        self._loop.call_soon_threadsafe(self._forget)

    async def open(self):
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def close(self):
        self._listener.close()
        for line in list(self._lines):
            line.cut()
        while self._lines:
            await asyncio.sleep(_TICK_SECS)

    def _change(self, condition):
        was, self._condition = self._condition, condition
        for line in list(self._lines):
            if condition.resets or (line.has_lost and was.silent and not condition.silent):
                line.cut()

    def _forget(self):
        for line in self._lines:
            line.forgotten = Condition(silent="both", loses=True)

    async def _accept(self, reader, writer):
        line = _Line(self, writer)
        self._lines.add(line)
        try:
            await line.run(reader, self._server)
        finally:
            self._lines.discard(line)


class _Line:
    """One connection of a client, and the one to the server that belongs to it."""

    def __init__(self, link, writer):
        self.forgotten = None
        self.has_lost = False
        self._link = link
        self._client = writer
        self._writers = [writer]
        self._cut = asyncio.Event()

    def cut(self):
        """Resets both connections."""
        self._cut.set()

    async def run(self, reader, server):
        move = asyncio.ensure_future(self._move(reader, server))
        cut = asyncio.ensure_future(self._cut.wait())
        if self._link.condition.resets:
            self.cut()
        await asyncio.wait([move, cut], return_when=asyncio.FIRST_COMPLETED)
        for task in (move, cut):
            task.cancel()
        moved, _ = await asyncio.gather(move, cut, return_exceptions=True)
        if isinstance(moved, OSError):
            self.cut()
        for writer in self._writers:
            if self._cut.is_set():
                _reset(writer)
            writer.close()

    async def _move(self, reader, server):
        host, port = server.rsplit(":", 1)
        await self._while_silent(OUT)  # The handshake does not get through, either.
        back, out = await asyncio.open_connection(host, int(port))
        self._writers.append(out)
        await asyncio.gather(self._pump(OUT, reader, out), self._pump(BACK, back, self._client))

    async def _pump(self, direction, reader, writer):
        """Moves the bytes of one direction, and its end."""
        queue = asyncio.Queue()
        deliver = asyncio.ensure_future(self._deliver(direction, queue, writer))
        try:
            data = b"first"
            while data:
                data = await _read(reader)
                queue.put_nowait((_now() + self._condition.delay_secs, data))
            await deliver
        finally:
            deliver.cancel()

    async def _deliver(self, direction, queue, writer):
        while True:
            due, data = await queue.get()
            await asyncio.sleep(max(0.0, due - _now()))
            if self._condition.is_silent(direction) and self._condition.loses:
                self.has_lost = True
                continue
            await self._while_silent(direction)
            if data is None:
                raise ConnectionResetError
            if not data:
                writer.write_eof()
                return
            await self._write(data, writer)

    async def _write(self, data, writer):
        """Writes at the speed of the link."""
        while data:
            speed = self._condition.bytes_per_sec
            count = len(data) if speed == math.inf else max(1, int(speed * 0.05))
            part, data = data[:count], data[count:]
            if speed != math.inf:
                await asyncio.sleep(len(part) / speed)
            writer.write(part)
            await writer.drain()

    async def _while_silent(self, direction):
        while self._condition.is_silent(direction):
            await asyncio.sleep(_TICK_SECS)

    @property
    def _condition(self):
        return self.forgotten or self._link.condition


def _now():
    return asyncio.get_running_loop().time()


async def _read(reader):
    """Returns bytes, b"" at their end, None if the connection was reset."""
    try:
        return await reader.read(_CHUNK)
    except OSError:
        return None


def _reset(writer):
    """Makes the close of a connection send RST instead of FIN."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
        )
        writer.transport.abort()
