"""References: paths, URLs, data URIs, and files for images that have no path."""

import base64
import contextlib
import io
import os
import threading
import time
import zlib
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
    cases = {
        f"{tmp_path}/missing.png": "There is no file .*missing",
        base64.b64encode(
            b"\x89PNG\r\n\x1a\n" + b"x" * 99
        ).decode(): "write `data:image/png;base64,`",
        base64.b64encode(
            b"\xff\xd8\xff\xe0" + b"x" * 99
        ).decode(): "begins like an image in base64",
        (tmp_path / "missing.png").as_uri(): r"There is no file .*missing\.png",
        f"{tmp_path}/missing folder/a.png": "There is no file",
        f"{tmp_path}/a\0b.png": "cannot be read",
        f"{tmp_path}/{'x' * 5000}": "cannot be read",
        " ": "empty",
        str(tmp_path): "is a folder",
        f"file://server{tmp_path}/a.png": "machine 'server'",
        "s3://bucket/a.png": r"s3://bucket/a\.png",
        "https://example.org/cat.png": "allow_fetch=True",
        "~nobody-of-this-name/a.png": "home folder",
        "data:image/png;base64": "no comma",
        "data:image/png;base64,????": "base64",
        "data:,": "empty",
    }
    if hasattr(os, "mkfifo"):  # opening it would block
        os.mkfifo(tmp_path / "pipe.png")
        cases[str(tmp_path / "pipe.png")] = "not a regular file"
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


def test_files_of_the_kernel_are_not_waited_for():
    for name in ("/proc/kmsg", "/proc/self/pagemap", "/dev/zero", "/dev/random", "/dev/stdin"):
        if Path(name).exists():
            with pytest.raises(ImageError, match=r"is empty|not a regular file"):
                load_image(name)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        *((one, True) for one in ("8.8.8.8", "1.1.1.1", "2001:4860:4860::8888", "2a00:1450::1")),
        *((one, False) for one in ("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1")),
        *((one, False) for one in ("169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1")),
        *((one, False) for one in ("::1", "::", "fe80::1%eth0", "fd00:ec2::254", "fec0::1")),
        *((one, False) for one in ("::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::7f00:1")),
        *(
            (one, False)
            for one in ("2002:7f00:1::", "2001:0:7f00:1::", "ff02::1", "255.255.255.255")
        ),
    ],
)
def test_addresses_of_the_public_internet(address, public):
    assert sources.is_public(address) is public


@pytest.mark.parametrize(
    "host", ["localhost", "127.1", "0x7f000001", "2130706433", "[::ffff:127.0.0.1]", "017700000001"]
)
def test_an_address_in_any_notation_is_resolved_first(host):
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


def pages(handler):
    match handler.path.partition("?")[0]:
        case "/cat.png":
            reply(handler, png())
        case "/moved":
            reply(handler, status=302, Location="/cat.png")
        case "/round":
            reply(handler, status=302, Location="/round")
        case "/ftp":
            reply(handler, status=302, Location="ftp://example.org/cat.png")
        case "/inwards":
            reply(handler, status=302, Location="http://10.0.0.1/cat.png")
        case "/banner":
            handler.wfile.write(b"220 the secret of a service\r\n")
        case "/early":  # never anything but hints
            with contextlib.suppress(OSError):
                for _ in range(100):
                    handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
                    time.sleep(0.05)
        case "/page":
            reply(handler, b"<html>moved</html>")
        case "/encoded":
            packed = zlib.compress(bytes(64 << 20), 9)
            reply(handler, packed, **{"Content-Encoding": "deflate"})
        case "/huge":
            reply(handler, bytes(33 << 20))
        case "/slow":  # never silent for long, and never at its end
            handler.send_response(200)
            handler.end_headers()
            try:
                for _ in range(100):
                    handler.wfile.write(b"x")
                    handler.wfile.flush()
                    time.sleep(0.05)
            except OSError:  # nobody listens any more
                pass
        case _:
            reply(handler, status=404)


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


def test_names_of_images_are_left_where_they_are(picture, monkeypatch, tmp_path):
    monkeypatch.chdir(picture.parent)
    unused = tmp_path / "unused"
    for image in (picture.name, Path(picture.name), picture.as_uri()):
        assert image_reference(image, unused) == str(picture)
    url = "https://example.org/a.png?b=c"
    assert image_reference(url, unused) == url
    assert not unused.exists()


def test_data_is_written_once_into_the_folder(tmp_path):
    data = png("lime")
    uri = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    written = {image_reference(image, tmp_path) for image in (data, bytearray(data), uri)}
    (reference,) = written
    assert Path(reference).read_bytes() == data
    assert Path(reference).suffix == ".png"
    assert image_reference(png("blue"), tmp_path) != reference
    Path(reference).write_bytes(data[:30])
    assert Path(image_reference(data, tmp_path)).read_bytes() == data, "a damaged file is repaired"

    clear = Image.new("RGBA", (40, 40), (255, 0, 0, 0))
    reference = image_reference(clear, tmp_path)
    assert image_reference(clear.copy(), tmp_path) == reference
    assert load_image(reference).image.getpixel((3, 3)) == (255, 255, 255)


def test_unusable_data_is_not_written(tmp_path):
    for image in (b"", b"hello", "data:image/png;base64,aGk=", 7, None):
        with pytest.raises(ImageError):
            image_reference(image, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        image_reference(png(), blocked)


def test_many_writers_leave_one_whole_file(tmp_path):
    data = png(size=(400, 400))
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(image_reference(data, tmp_path)))
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert [str(path) for path in tmp_path.iterdir()] == list(set(found))
    assert Path(found[0]).read_bytes() == data
