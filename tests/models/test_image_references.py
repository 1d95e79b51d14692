"""References: paths, URLs, data URIs, and the store of pictures that have no path."""

import base64
import io
import os
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from langgraph_mai.models import ImageError, image_block, image_reference, load_image


def png(colour="red", size=(40, 40)):
    stream = io.BytesIO()
    Image.new("RGB", size, colour).save(stream, "PNG")
    return stream.getvalue()


@pytest.fixture
def picture(tmp_path):
    path = tmp_path / "ein Bild 图 #1 100%.png"
    path.write_bytes(png())
    return path


def assert_red(image):
    assert image.getpixel((5, 5)) == (255, 0, 0)


def test_a_path_with_blanks_and_other_letters(picture):
    assert_red(load_image(str(picture)))


def test_a_relative_path(picture, monkeypatch):
    monkeypatch.chdir(picture.parent)
    assert_red(load_image(picture.name))
    assert_red(load_image(f"./{picture.name}"))


def test_a_path_in_the_home_folder(picture, monkeypatch):
    monkeypatch.setenv("HOME", str(picture.parent))
    assert_red(load_image(f"~/{picture.name}"))


def test_file_urls(picture):
    assert_red(load_image(picture.as_uri()))
    assert_red(load_image(picture.as_uri().replace("file://", "FILE://localhost")))
    assert_red(
        load_image(f"file://{picture.parent.as_posix()}/x/../{picture.as_uri().split('/')[-1]}")
    )
    assert_red(load_image(picture.as_uri().replace("file://", "file:")))


def test_a_file_url_of_another_machine(picture):
    with pytest.raises(ImageError, match="machine 'server'"):
        load_image(f"file://server{picture.as_posix()}")


@pytest.mark.parametrize(
    "name", ["missing.png", "missing folder/a.png", "a\0b.png", "x" * 5000, " "]
)
def test_what_is_not_there_is_named(tmp_path, name):
    with pytest.raises(ImageError) as raised:
        load_image(f"{tmp_path}/{name}" if name.strip() else name)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_the_missing_path_of_a_file_url_is_named(tmp_path):
    with pytest.raises(ImageError, match=r"There is no file .*missing\.png"):
        load_image((tmp_path / "missing.png").as_uri())


def test_a_folder_is_no_picture(tmp_path):
    with pytest.raises(ImageError, match="is a folder"):
        load_image(str(tmp_path))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(ImageError, match="not a regular file"):
        load_image(str(tmp_path / "pipe.png"))


def test_other_schemes_are_refused():
    with pytest.raises(ImageError, match=r"s3://bucket/a\.png"):
        load_image("s3://bucket/a.png")


@pytest.mark.parametrize("label", ["image/png", "image/jpeg", "text/plain;charset=utf-8", ""])
def test_data_uris_are_decoded_by_content(label):
    assert_red(load_image(f"data:{label};base64,{base64.b64encode(png()).decode()}"))


def test_data_uris_in_other_spellings():
    plain = base64.b64encode(png()).decode()
    lines = "\n".join(plain[at : at + 60] for at in range(0, len(plain), 60))
    url_alphabet = base64.urlsafe_b64encode(png()).decode().rstrip("=")
    escaped = plain.replace("+", "%2B").replace("=", "%3D")
    for text in (lines, url_alphabet, escaped):
        assert_red(load_image(f"data:image/png;base64,{text}"))
    percent = "".join(f"%{byte:02x}" for byte in png())
    assert_red(load_image(f"data:image/png,{percent}"))


@pytest.mark.parametrize("uri", ["data:image/png;base64", "data:image/png;base64,????", "data:,"])
def test_broken_data_uris(uri):
    with pytest.raises(ImageError, match="data"):
        load_image(uri)


@given(st.text(max_size=80))
def test_no_string_gives_anything_but_a_picture_or_one_sentence(text):
    error = ""
    try:
        load_image(text)
    except ImageError as caught:
        error = str(caught)
    assert "\n" not in error


def test_downloads_are_off_by_default():
    with pytest.raises(ImageError, match="allow_fetch=True"):
        load_image("https://example.org/cat.png")


class FakeResponse(io.BytesIO):
    pass


def answer_with(monkeypatch, answer):
    def opened(self, request, timeout):
        assert request.full_url.startswith("http")
        assert timeout > 0
        if isinstance(answer, Exception):
            raise answer
        return FakeResponse(answer)

    monkeypatch.setattr(urllib.request.OpenerDirector, "open", opened)


def test_downloads_when_allowed(monkeypatch):
    answer_with(monkeypatch, png())
    assert_red(load_image("https://example.org/cat.png", allow_fetch=True))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (urllib.error.HTTPError("u", 404, "no", None, io.BytesIO()), "HTTP status 404"),
        (urllib.error.URLError(OSError("no route")), "no route"),
        (TimeoutError(), "more than 20 seconds"),
        (urllib.error.URLError(TimeoutError()), "more than 20 seconds"),
        (b"<html>moved</html>", "a web page"),
        (bytes(33 * 1024 * 1024), "larger than 32 MiB"),
    ],
)
def test_failed_downloads_are_one_sentence(monkeypatch, answer, message):
    answer_with(monkeypatch, answer)
    with pytest.raises(ImageError, match=message) as raised:
        load_image("https://example.org/cat.png", allow_fetch=True)
    assert "\n" not in str(raised.value)


def test_references_of_paths_are_absolute(picture, monkeypatch):
    monkeypatch.chdir(picture.parent)
    for image in (picture.name, Path(picture.name), picture.as_uri()):
        assert image_reference(image) == str(picture)


def test_web_addresses_stay_as_they_are():
    assert image_reference("https://example.org/a.png?b=c") == "https://example.org/a.png?b=c"


def test_content_is_stored_once():
    data = png("lime")
    uri = f"data:image/jpeg;base64,{base64.b64encode(data).decode()}"
    references = {image_reference(image) for image in (data, bytearray(data), uri)}
    assert len(references) == 1
    (reference,) = references
    assert Path(reference).read_bytes() == data
    assert Path(reference).suffix == ".png"
    assert image_reference(png("blue")) != reference


def test_pil_images_are_stored_as_they_look():
    image = Image.new("RGBA", (40, 40), (255, 0, 0, 0))
    reference = image_reference(image)
    assert image_reference(image.copy()) == reference
    assert load_image(reference).getpixel((3, 3)) == (255, 255, 255)


@pytest.mark.parametrize("image", [b"", b"hello", "data:image/png;base64,aGk=", 7, None])
def test_unusable_content_is_refused_before_it_is_stored(image):
    with pytest.raises(ImageError):
        image_reference(image)


def test_the_cache_folder_is_chosen_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path / "here"))
    assert Path(image_reference(png())).is_relative_to(tmp_path / "here")


def test_without_it_the_users_cache_folder_is_taken(tmp_path, monkeypatch):
    monkeypatch.delenv("LANGGRAPH_MAI_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path(image_reference(png())).parent == tmp_path / ".cache" / "langgraph-mai" / "images"


def test_an_unwritable_cache_folder_is_replaced_by_a_temporary_one(tmp_path, monkeypatch):
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    reference = image_reference(png())
    assert Path(reference).is_relative_to(tmp_path / "tmp")
    assert_red(load_image(reference))


@pytest.fixture
def homeless(monkeypatch, tmp_path):
    """A user that the system has no entry for, as in many containers."""
    pwd = pytest.importorskip("pwd", reason="Windows has a home folder for everyone")

    def unknown(*_):
        raise KeyError("no such user")

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("chosen", [None, "~", "~/pictures"])
def test_without_a_home_folder_a_temporary_one_is_taken(homeless, monkeypatch, chosen):
    monkeypatch.delenv("LANGGRAPH_MAI_CACHE")
    if chosen:
        monkeypatch.setenv("LANGGRAPH_MAI_CACHE", chosen)
    reference = image_reference(png())
    assert Path(reference).is_relative_to(homeless)
    assert_red(load_image(reference))


def test_the_cache_folder_of_nobody(monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", "~nobody-of-this-name/x")
    with pytest.raises(ImageError, match="LANGGRAPH_MAI_CACHE is '~nobody-of-this-name/x'"):
        image_reference(png())


def test_nowhere_to_store(tmp_path, monkeypatch):
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(blocked))
    monkeypatch.setattr("tempfile.tempdir", str(blocked))
    with pytest.raises(ImageError, match="set LANGGRAPH_MAI_CACHE to a folder"):
        image_reference(png())


@pytest.mark.parametrize("use", [load_image, image_block])
def test_a_stored_picture_that_vanished(use):
    reference = image_reference(png("pink"))
    Path(reference).unlink()
    with pytest.raises(ImageError, match=r"The stored picture .* is gone") as raised:
        use(reference)
    assert "\n" not in str(raised.value)
    assert image_reference(png("pink")) == reference
    assert use(reference)


def test_a_stored_picture_that_was_damaged():
    reference = image_reference(png("navy", (400, 400)))
    Path(reference).write_bytes(Path(reference).read_bytes()[:30])
    with pytest.raises(ImageError, match=r"truncated|damaged|not a picture"):
        load_image(reference)
    assert load_image(image_reference(png("navy", (400, 400)))).size == (400, 400)


def test_many_writers_at_once_leave_one_whole_file(tmp_path, monkeypatch):
    monkeypatch.setenv("LANGGRAPH_MAI_CACHE", str(tmp_path))
    data = png(size=(400, 400))
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(image_reference(data))) for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 16
    assert len(set(found)) == 1
    assert [path.name for path in (tmp_path / "images").iterdir()] == [Path(found[0]).name]
    assert Path(found[0]).read_bytes() == data
