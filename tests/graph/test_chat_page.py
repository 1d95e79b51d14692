"""agent-chat-ui in headless Chromium, against `langgraph dev`: what a person sees and can click.

Needs playwright, a Chromium, and MAI_TEST_CHAT_PAGE with the folder of a built agent-chat-ui
(https://github.com/langchain-ai/agent-chat-ui, `npm install && npx next build`).
"""

import os
import shutil
import signal
import subprocess
import time
from importlib.util import find_spec
from pathlib import Path

import httpx
import pytest
from processes import free_port

PAGE, CHROMIUM = os.environ.get("MAI_TEST_CHAT_PAGE"), shutil.which("chromium")
pytestmark = pytest.mark.skipif(
    not (PAGE and CHROMIUM and find_spec("playwright")),
    reason="there is no Chromium, no playwright, or no page in MAI_TEST_CHAT_PAGE",
)

PICTURES = Path(__file__).parents[2] / "demo" / "pictures"
HIGHEST = "Which bar is the highest?"
SUM = "What is the sum of the red value and the green value?"
SQUARES = "How many squares can you see in the picture?"
REVIEWED = "The small model answers 4, the large one 5."
NO_IMAGE = "There is no image in this conversation"

WATCH = """
window.seen = [];
new MutationObserver(() => {
  for (const bubble of document.querySelectorAll(".group.mr-auto .py-1")) {
    const text = bubble.innerText.trim();
    if (text && !window.seen.includes(text)) window.seen.push(text);
  }
}).observe(document, {subtree: true, childList: true, characterData: true});
"""
IDLE = "() => ![...document.querySelectorAll('button')].some(b => b.innerText.includes('Cancel'))"


@pytest.fixture(scope="module")
def page_url(tmp_path_factory):
    url = f"http://127.0.0.1:{(port := free_port())}"
    with (tmp_path_factory.mktemp("page") / "next.log").open("w") as log:
        process = subprocess.Popen(
            ["npx", "next", "start", "-p", str(port)],
            cwd=PAGE,
            env=os.environ | {"NEXT_TELEMETRY_DISABLED": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        for _ in range(300):
            try:
                httpx.get(url)
                break
            except httpx.TransportError:
                time.sleep(0.2)
        yield url
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(20)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Chat:
    """One conversation in the page."""

    def __init__(self, page, url):
        self.page = page
        page.add_init_script(WATCH)
        page.goto(url)
        page.wait_for_selector("textarea", timeout=120_000)

    def settle(self):
        """Wait until nothing runs any more."""
        self.page.wait_for_timeout(1000)
        self.page.wait_for_function(IDLE, timeout=120_000)
        self.page.wait_for_timeout(1000)

    def send(self, text=None, *files):
        if files:
            self.page.set_input_files("#file-input", [str(file) for file in files])
            self.page.wait_for_timeout(1000)
        if text:
            self.page.fill("textarea", text)
        self.page.click("button[type=submit]")
        self.settle()

    def click(self, name):
        self.page.get_by_role("button", name=name).last.click()
        self.settle()

    @property
    def bubbles(self):
        found = self.page.query_selector_all(".group.mr-auto .py-1")
        return [one.inner_text().strip() for one in found]

    @property
    def vanished(self):
        return set(self.page.evaluate("window.seen")) - set(self.bubbles)

    @property
    def errors(self):
        found = self.page.query_selector_all("[data-sonner-toast]")
        return " ".join(one.inner_text() for one in found)


@pytest.fixture
def chat(browser, studio, page_url):
    """Opens a conversation with a graph."""
    pages = []

    def opened(graph):
        pages.append(browser.new_page(viewport={"width": 1000, "height": 800}))
        return Chat(pages[-1], f"{page_url}/?apiUrl={studio}&assistantId={graph}")

    yield opened
    for page in pages:
        page.close()


def test_questions_follow_without_their_image_and_an_edited_one_is_asked_again(chat):
    mai = chat("mai")
    mai.send(HIGHEST, PICTURES / "chart.png")
    mai.send(SUM)
    mai.send(SQUARES, PICTURES / "squares.png")
    first, sum_of_both, squares = mai.bubbles
    assert (first, sum_of_both) == ("red", "12")
    assert squares == "4"
    assert not mai.vanished
    mine = mai.page.query_selector_all(".group.ml-auto")[0]
    mine.hover()
    mine.query_selector_all("button")[-1].click()
    mai.page.wait_for_timeout(1000)
    mai.page.fill(".group.ml-auto textarea", SUM)
    mai.page.keyboard.press("Control+Enter")
    mai.settle()
    assert mai.bubbles[-1] == "12"
    assert not mai.errors


def test_an_image_may_come_before_its_question(chat):
    mai = chat("mai")
    mai.send(None, PICTURES / "chart.png")
    assert "The question is empty" in mai.errors
    mai.send(HIGHEST)
    assert mai.bubbles == ["red"]


@pytest.mark.parametrize("graph", ["mai", "agent"])
def test_without_an_image_or_with_a_document_it_says_so(chat, graph, tmp_path):
    document = tmp_path / "a.pdf"
    document.write_bytes(b"%PDF-1.4\n%%EOF")
    for files, said in ((), NO_IMAGE), ((document,), "application/pdf"):
        conversation = chat(graph)
        conversation.send(HIGHEST, *files)
        shown = conversation.errors + " ".join(conversation.bubbles)
        # A planner does not show its tool what it cannot see.
        assert (NO_IMAGE if graph == "agent" else said) in shown


def test_an_agent_shows_its_tool_and_nothing_that_vanishes(chat):
    agent = chat("agent")
    agent.send(HIGHEST, PICTURES / "chart.png")
    agent.send(SQUARES, PICTURES / "squares.png")
    answers = [one for one in agent.bubbles if one.startswith("answer")]
    assert answers == ["answer: red route: direct", "answer: 4 route: transferred"]
    assert not agent.vanished


@pytest.mark.parametrize(("decision", "answer"), [("approve", "5"), ("edit", "7"), ("reject", "4")])
def test_a_review_is_answered_by_its_buttons(chat, decision, answer):
    review = chat("mai_review")
    review.send(SQUARES, PICTURES / "squares.png")
    assert review.bubbles == [REVIEWED]
    texts = review.page.query_selector_all("textarea")
    if decision == "edit":
        texts[0].fill("7")
    if decision == "reject":
        texts[1].fill("no")
    review.click({"approve": "Approve", "edit": "Submit", "reject": "Submit rejection"}[decision])
    assert review.bubbles == [answer]
