"""Two lines about this machine, in some ten seconds: what deploy/quickstart ends with. docs/performance.md has the real thing."""

import contextlib

from lib.drive_rows import full_drive, mb_a_second
from lib.http_rows import GET_SIZES, read_whole
from lib.servers import Nginx, Tarn
from lib.stage import BURST_SECONDS, Unavailable, median, rounds_of


def _figures(bursts, cpu):
    gigabytes = [burst["bytes"] / 1e9 for burst in bursts]
    rate = median([count / burst["seconds"] for count, burst in zip(gigabytes, bursts)])
    cost = median([burst[cpu] / count for count, burst in zip(gigabytes, bursts)])
    return f"{rate:.1f} GB/s, {cost:.3f} CPU s/GB"


def get_line(stage):
    """GETs of 64 MiB from memory beside nginx, or, where there is none, beside reading the files."""
    size, count, connections = GET_SIZES["64MiB"]
    names = [f"object-{i}" for i in range(count)]
    with contextlib.ExitStack() as exits:
        nginx = None
        with contextlib.suppress(Unavailable):
            nginx = exits.enter_context(Nginx(stage, stage.new_directory("nginx")))
        tarn = exits.enter_context(Tarn(stage, stage.new_directory("tarn")))
        tarn.store(names, size)
        files = tarn.data_files(size)
        for path in files.values():
            read_whole(path)
        options = {"connections": connections, "seconds": BURST_SECONDS}
        mine = stage.write_lines("mine.urls", tarn.target_urls(names))
        sides = {"tarn": lambda _: stage.load(mine, [tarn.target_pid], **options)}
        if nginx:
            for name in names:
                nginx.serve(name, files[name])
            theirs = stage.write_lines("theirs.urls", [nginx.url("sendfile", name) for name in names])
            sides["beside"] = lambda _: stage.load(theirs, nginx.pids, **options)
        else:
            sources = stage.write_lines("files", [files[name] for name in names])
            sides["beside"] = lambda _: stage.readers(sources, 1)
        measured = rounds_of(stage, sides)
    beside = f"nginx {_figures(measured['beside'], 'server_cpu_s')}" if nginx else (
        f"reading the files without a server {_figures(measured['beside'], 'client_cpu_s')} (nginx is not installed)")
    return f"GET of 64 MiB: {_figures(measured['tarn'], 'server_cpu_s')}; {beside}"


def _ratio_of_readers(stage, emulated):
    with full_drive(stage, emulated, beside=False) as full:
        one = mb_a_second(full.run("tarn", 1, 1.5))
        many = mb_a_second(full.run("tarn", 16, 3))
    return f"16 readers of one drive: {many / one:.2f} of one reader's rate ({many:.0f} of {one:.0f} MB/s, "


def readers_line(stage):
    """16 cold readers of one drive through Tarn, over one: an emulated rotating drive, or what is here."""
    try:
        stage.need_drive()
        return _ratio_of_readers(stage, True) + "an emulated rotating drive)"
    except Unavailable:
        return _ratio_of_readers(stage, False) + "the drive that is here: none that turns can be emulated)"
