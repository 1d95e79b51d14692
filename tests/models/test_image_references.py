"""References: paths, URLs, data URIs, and files for images that have no path."""

import base64
import contextlib
import io
import os
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from langgraph_mai.configs import ConfigError
from langgraph_mai.models.images import (
    ImageError,
    block_image,
    image_reference,
    load_image,
    sources,
)


def png(colour="red", size=(40, 40)):
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "ein Bild 图 #1 100%.png"
    path.write_bytes(png())
    return path


def is_red(image):
    return image.image.getpixel((5, 5)) == (255, 0, 0)


def test_paths_and_file_urls(picture, monkeypatch):
    monkeypatch.chdir(picture.parent)
    monkeypatch.setenv("HOME", str(picture.parent))
    url = picture.as_uri()
    references = [
        str(picture),
        picture.name,
        f"./{picture.name}",
        f"~/{picture.name}",
        url,
        url.replace("file://", "FILE://localhost"),
        url.replace("file://", "file:"),
        f"file://{picture.parent.as_posix()}/x/../{url.split('/')[-1]}",
    ]
    for reference in references:
        assert is_red(load_image(reference)), reference


def test_what_cannot_be_read_is_named_in_one_sentence(tmp_path):
    png_text, jpeg_text = (
        base64.b64encode(start + b"x" * 99).decode()
        for start in (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0")
    )
    os.mkfifo(tmp_path / "pipe.png")  # opening it would block
    cases = {
        f"{tmp_path}/missing.png": "There is no file .*missing",
        png_text: "write `data:image/png;base64,`",
        jpeg_text: "begins like an image in base64",
        (tmp_path / "missing.png").as_uri(): r"There is no file .*missing\.png",
        f"{tmp_path}/missing folder/a.png": "There is no file",
        f"{tmp_path}/a\0b.png": "cannot be read",
        f"{tmp_path}/{'x' * 5000}": "cannot be read",
        " ": "empty",
        str(tmp_path): "is a folder",
        f"{tmp_path}/pipe.png": "not a regular file",
        f"file://server{tmp_path}/a.png": "machine 'server'",
        "s3://bucket/a.png": r"s3://bucket/a\.png",
        "https://example.org/cat.png": "allow_fetch=True",
        "~nobody-of-this-name/a.png": "home folder",
        "data:image/png;base64": "no comma",
        "data:image/png;base64,????": "base64",
        "data:,": "empty",
    }
    # Files of the kernel are not waited for.
    for name in ("/proc/kmsg", "/proc/self/pagemap", "/dev/zero", "/dev/random", "/dev/stdin"):
        cases |= {name: r"is empty|not a regular file"} if Path(name).exists() else {}
    for reference, message in cases.items():
        with pytest.raises(ImageError, match=message) as raised:
            load_image(reference)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 400


def test_only_the_folder_that_is_open_is_read(picture, tmp_path, monkeypatch):
    """Outside, through a link, missing, a folder, forbidden: the same sentence, no more."""
    root = tmp_path / "open"
    (root / "below").mkdir(parents=True)
    inside = root / "below" / "a.png"
    inside.write_bytes(png())
    (root / "link.png").symlink_to(picture)
    (root / "notes.txt").write_text("the secret of a file")
    monkeypatch.chdir(root)
    for reference in (str(inside), inside.as_uri(), "below/a.png", f"{root}/below/../below/a.png"):
        assert is_red(load_image(reference, image_root=root))
        assert is_red(block_image({"type": "image", "url": reference}, image_root=str(root)))
    assert is_red(
        load_image(f"data:image/png;base64,{base64.b64encode(png()).decode()}", image_root=root)
    )
    for reference in (
        str(picture), picture.as_uri(), f"../{picture.name}", "link.png", "missing.png", "below",
        "notes.txt/x", "/etc/hostname", "/proc/self/environ", "~/a.png", "a\0b.png", "x" * 5000,
    ):  # fmt: skip
        with pytest.raises(ImageError, match=r"There is no image .* that may be read") as raised:
            load_image(reference, image_root=root)
        assert str(tmp_path) in reference or str(tmp_path) not in str(raised.value)
    for closed in (os.devnull, tmp_path / "none"):
        with pytest.raises(ImageError, match="may be read here"):
            load_image(str(inside), image_root=closed)
    with pytest.raises(ImageError) as raised:  # open, but no image: its content is not shown
        load_image("notes.txt", image_root=root)
    assert "secret" not in str(raised.value)


ADDRESSES = {
    True: ["8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "2a00:1450::1"],
    False: [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "::1", "::", "fe80::1%eth0", "fd00:ec2::254", "fec0::1",
        "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:7f00:1::",
        "ff02::1", "255.255.255.255",
    ],
}  # fmt: skip


def test_only_addresses_of_the_public_internet_in_any_notation():
    for public, addresses in ADDRESSES.items():
        assert {address: sources.is_public(address) for address in addresses} == dict.fromkeys(
            addresses, public
        )
    for host in (
        "localhost", "127.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "017700000001",
    ):  # fmt: skip
        with pytest.raises(ImageError, match=r"not on the public|host is not known"):
            load_image(f"http://{host}:1/cat.png", allow_fetch=True)


@given(st.text(max_size=80))
def test_any_string_gives_an_image_or_one_sentence(text):
    refused = ""
    try:
        load_image(text)
    except ImageError as error:
        refused = str(error)
    assert "\n" not in refused


def test_data_uris():
    plain = base64.b64encode(png()).decode()
    lines = "\n".join(plain[at : at + 60] for at in range(0, len(plain), 60))
    url_alphabet = base64.urlsafe_b64encode(png()).decode().rstrip("=")
    escaped = plain.replace("+", "%2B").replace("=", "%3D")
    percent = "".join(f"%{byte:02x}" for byte in png())
    uris = [f"data:image/png;base64,{text}" for text in (plain, lines, url_alphabet, escaped)]
    uris += [f"data:{kind};base64,{plain}" for kind in ("image/jpeg", "text/plain;charset=x", "")]
    digests = {load_image(uri).digest for uri in [*uris, f"data:image/png,{percent}"]}
    assert len(digests) == 1
    assert is_red(load_image(uris[0]))


@contextmanager
def web_server(answer):
    """A server on loopback; `answer(handler)` writes what it says."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            answer(self)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def reply(handler, data=b"", status=200, **headers):
    handler.send_response(status)
    for name, value in {"Content-Length": str(len(data)), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(data)


def trickle(handler, data):
    """Never silent for long, and never at its end."""
    with contextlib.suppress(OSError):  # nobody listens any more
        for _ in range(100):
            handler.wfile.write(data)
            handler.wfile.flush()
            time.sleep(0.05)


def slow(handler):
    handler.send_response(200)
    handler.end_headers()
    trickle(handler, b"x")


def moved(where):
    return lambda handler: reply(handler, status=302, Location=where)


PACKED = zlib.compress(bytes(64 << 20), 9)
PAGES = {
    "/cat.png": lambda handler: reply(handler, png()),
    "/moved": moved("/cat.png"),
    "/round": moved("/round"),
    "/ftp": moved("ftp://example.org/cat.png"),
    "/inwards": moved("http://10.0.0.1/cat.png"),
    "/banner": lambda handler: handler.wfile.write(b"220 the secret of a service\r\n"),
    "/early": lambda handler: trickle(handler, b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "/page": lambda handler: reply(handler, b"<html>moved</html>"),
    "/encoded": lambda handler: reply(handler, PACKED, **{"Content-Encoding": "deflate"}),
    "/huge": lambda handler: reply(handler, bytes(33 << 20)),
    "/slow": slow,
}


def pages(handler):
    PAGES.get(handler.path.partition("?")[0], lambda one: reply(one, status=404))(handler)


async def test_downloads(monkeypatch):
    failures = {
        "/missing": "HTTP status 404",
        "/round": "redirects more than 10 times",
        "/ftp": "redirects to the scheme 'ftp'",
        "/inwards": "not on the public internet",
        "/banner": "speaks no HTTP",
        "/page": "a web page",
        "/huge": "larger than 32 MiB",
        "/encoded": "is not an image",
    }
    with web_server(pages) as address:
        # An event loop is running here, too.
        with pytest.raises(ImageError, match="not on the public internet"):
            load_image(f"{address}/cat.png", allow_fetch=True)
        monkeypatch.setattr(sources, "is_public", lambda ip: ip == "127.0.0.1")
        for path in ("/cat.png", "/moved"):
            assert is_red(load_image(address + path, allow_fetch=True))
        for path, message in failures.items():
            with pytest.raises(ImageError, match=message) as raised:
                load_image(f"{address}{path}?token=secret", allow_fetch=True)
            assert "\n" not in str(raised.value)
            assert "secret" not in str(raised.value)
        monkeypatch.setattr(sources, "FETCH_SECONDS", 0.3)
        for path in ("/slow", "/early"):
            started = time.monotonic()
            with pytest.raises(ImageError, match="it took more than"):
                load_image(address + path, allow_fetch=True)
            assert time.monotonic() - started < 2
    for url in (f"{address}/gone", "http://[::1/x.png", "http:///x.png", "http://a b/x.png"):
        with pytest.raises(ImageError, match="cannot be fetched"):
            load_image(url, allow_fetch=True)


def test_a_reference_to_any_image(picture, monkeypatch, tmp_path):
    """Names are left where they are, and data is written once into the folder, whole."""
    monkeypatch.chdir(picture.parent)
    new = tmp_path / "new"
    for image in (picture.name, Path(picture.name), picture.as_uri()):
        assert image_reference(image, new) == str(picture)
    url = "https://example.org/a.png?b=c"
    assert image_reference(url, new) == url
    for image in (b"", b"hello", "data:image/png;base64,aGk=", 7, None):
        with pytest.raises(ImageError):
            image_reference(image, new)
    assert not new.exists()

    data = png("lime", (400, 400))
    uri = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    written = {image_reference(image, new) for image in (data, bytearray(data), uri)}
    with ThreadPoolExecutor(16) as pool:
        written |= set(pool.map(lambda _: image_reference(data, new), range(16)))
    (reference,) = written
    assert [str(path) for path in new.iterdir()] == [reference]
    assert Path(reference).read_bytes() == data
    assert Path(reference).suffix == ".png"
    assert image_reference(png("blue"), new) != reference
    Path(reference).write_bytes(data[:30])
    assert Path(image_reference(data, new)).read_bytes() == data, "a damaged file is repaired"

    clear = Image.new("RGBA", (40, 40), (255, 0, 0, 0))
    reference = image_reference(clear, new)
    assert image_reference(clear.copy(), new) == reference
    assert load_image(reference).image.getpixel((3, 3)) == (255, 255, 255)
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        image_reference(png(), blocked)
