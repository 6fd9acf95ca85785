"""Passes TCP connections on that a redirect rule brought here, and holds back what is sent on them.

    delay_relay.py SECONDS JITTER BACK

Prints its port, and the mark of its own connections, which the rule must let through. What is sent arrives in order,
each chunk SECONDS later, give or take up to JITTER; BACK seconds later what comes back to who has connected. Runs until it is killed; see netns.py.
"""

import asyncio
import random
import socket
import struct
import sys

SO_ORIGINAL_DST = 80
MARK = 0x7A52


async def pump(reader, writer, seconds, jitter):
    """From one side to the other; nothing overtakes what was sent before."""
    loop = asyncio.get_running_loop()
    queue, last = asyncio.Queue(), [0.0]

    async def send():
        while (item := await queue.get())[1] is not None:
            await asyncio.sleep(max(0.0, item[0] - loop.time()))
            if not item[1]:
                writer.write_eof()
                return
            writer.write(item[1])
            await writer.drain()

    sender = asyncio.create_task(send())
    sender.add_done_callback(lambda done: done.cancelled() or done.exception())  # its side may be gone
    try:
        while True:
            data = await reader.read(65536)
            last[0] = max(last[0], loop.time() + max(0.0, seconds + random.uniform(-jitter, jitter)))
            queue.put_nowait((last[0], data))
            if not data:
                break
        await sender
    finally:
        sender.cancel()


_running = set()  # asyncio itself would forget tasks that wait for each other


async def pass_on(reader, writer, seconds, jitter, back):
    there = None
    _running.add(asyncio.current_task())
    try:
        packed = writer.get_extra_info("socket").getsockopt(socket.SOL_IP, SO_ORIGINAL_DST, 16)
        port, address = struct.unpack_from("!2xH4s", packed)
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, (socket.inet_ntoa(address), port))
        other, there = await asyncio.open_connection(sock=connection)
        await asyncio.gather(pump(reader, there, seconds, jitter), pump(other, writer, back, jitter))
    except OSError:
        pass  # either side is gone: so is the other one
    finally:
        _running.discard(asyncio.current_task())
        for each in (writer, there):
            if each is not None:
                each.transport.abort()


async def main():
    seconds, jitter, back = (float(word) for word in sys.argv[1:4])
    server = await asyncio.start_server(lambda r, w: pass_on(r, w, seconds, jitter, back), "0.0.0.0", 0)
    print(server.sockets[0].getsockname()[1], MARK, flush=True)
    await server.serve_forever()


asyncio.run(main())
