"""The katas as an environment of verifiers, with a model whose answers are known."""

from __future__ import annotations

import asyncio
import http.server
import json
import threading
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integrations.test_inspect import ANSWERS, FORMAT, KNOBS, RIGHT
from tests.support.repositories import ROOT

FOLDER = ROOT / "integrations/verifiers"
NEEDED = "pip install 'verifiers>=0.4' to run this"


class Model(http.server.BaseHTTPRequestHandler):
    """A server of a model that gives the next of the known answers."""

    answers: Iterator[str]

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": next(self.answers)}
        said = {
            **{"id": "1", "object": "chat.completion", "created": 1, "model": "m"},
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        body = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


async def rolled_out(environment: Any, url: str) -> list[Any]:
    """A trace for each of the known answers."""
    import verifiers.v1 as vf
    from verifiers.v1.env import RunSlot

    client = vf.EvalClientConfig(base_url=url, api_key_var="KEY_OF_A_STUB")
    context = vf.ModelContext(client=client, model="m", sampling=vf.SamplingConfig())
    (task,) = environment.taskset
    traces = []
    async with environment.serving():
        for _ in ANSWERS:
            episode = await environment.run_slot(RunSlot(task), context, None, None)
            traces += episode.traces
    return traces


def test_verifiers_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("verifiers.v1", reason=NEEDED)
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("KEY_OF_A_STUB", "none")
    Model.answers = iter(ANSWERS)
    from pallas_katas_env import load_environment

    knobs = {("match" if name == "name" else name): value for name, value in KNOBS.items()}
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        traces = asyncio.run(rolled_out(load_environment(**knobs), url))
        server.shutdown()
    assert not [trace.errors for trace in traces if trace.errors]
    assert [trace.rewards["right"].score for trace in traces] == RIGHT
    assert [trace.metrics["format"] for trace in traces] == FORMAT
    stars = int(traces[0].metrics["stars"])
    assert traces[0].reward == pytest.approx(stars / 3)


def test_the_package_is_laid_out_as_the_others_are() -> None:
    """What installs it needs no verifiers: one module of the name that `vf-eval` imports."""
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
    name = project["project"]["name"].replace("-", "_")
    assert project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == [name]
    text = (FOLDER / name / "__init__.py").read_text(encoding="utf-8")
    assert '__all__ = ["AskOnce", "KatasTaskset", "load_environment"]' in text
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(need.startswith(ours["name"]) for need in project["project"]["dependencies"])
    assert project["project"]["requires-python"] == ours["requires-python"]
