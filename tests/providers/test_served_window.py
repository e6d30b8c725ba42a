"""The window of a model that no table knows is asked of its server, on this machine only (C3)."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from nacre.app.open_agent import open_agent
from nacre.messages.blocks import Json, JsonObject
from nacre.providers import servers
from nacre.providers.servers import LLAMA_CPP, OLLAMA, VLLM, ServedWindow, ServerProfile, served_window
from nacre.settings import load
from tests.cli.program import nacre

GGUF = "/models/SmolLM2-135M-Instruct.Q4_1.gguf"
PROPS: JsonObject = {
    "default_generation_settings": {
        "params": {"seed": 4294967295, "max_tokens": -1, "n_predict": -1, "chat_format": "Content-only"},
        "n_ctx": 8192,
    },
    "total_slots": 1,
    "model_alias": GGUF,
    "model_path": GGUF,
    "modalities": {"vision": False, "video": False, "audio": False},
}
"""What llama.cpp's server answered; `n_ctx` is the window of one slot."""
LLAMA_MODELS: JsonObject = {
    "models": [{"name": GGUF, "model": GGUF, "type": "model", "capabilities": ["completion"]}],
    "object": "list",
    "data": [
        {
            "id": GGUF,
            "object": "model",
            "created": 1794982037,
            "owned_by": "llamacpp",
            "meta": {"vocab_type": 2, "n_vocab": 49152, "n_ctx": 8192, "n_ctx_train": 8192, "n_embd": 576},
        }
    ],
}
"""The list of the same server, in two forms at once."""
VLLM_MODELS: JsonObject = {
    "object": "list",
    "data": [
        {"id": "lora", "object": "model", "owned_by": "vllm", "parent": "qwen", "max_model_len": None},
        {"id": "qwen", "object": "model", "owned_by": "vllm", "root": "qwen", "max_model_len": 40960},
    ],
}
OLLAMA_PS: JsonObject = {
    "models": [
        {
            "name": "qwen3:latest",
            "model": "qwen3:latest",
            "size": 5333539264,
            "details": {"format": "gguf", "family": "qwen3", "parameter_size": "8.2B"},
            "expires_at": "2026-11-18T06:38:31.83753-07:00",
            "size_vram": 5333539264,
            "context_length": 4096,
        }
    ]
}
OLLAMA_SHOW: JsonObject = {
    "parameters": 'num_ctx                        16384\nstop                           "<|im_end|>"',
    "details": {"format": "gguf", "family": "qwen3"},
    "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960},
    "capabilities": ["completion", "tools", "thinking"],
}
OLLAMA_TRAINED: JsonObject = {**OLLAMA_SHOW, "parameters": "temperature 0.6"}


class LocalServer:
    """A loopback server that answers each path with one JSON value, and keeps what it was asked."""

    def __init__(self, answers: dict[str, Json]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, str, str]] = []
        self.status = 200
        self.headers: dict[str, str] = {}
        self.url = ""

    def respond(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("content-length", 0))
        body = handler.rfile.read(length).decode()
        self.asked.append((handler.path, body, handler.headers.get("authorization", "")))
        found = self.answers.get(handler.path)
        handler.send_response(self.status if found is not None else 404)
        for name, value in self.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(json.dumps(found).encode())


@contextmanager
def serving(**answers: Json) -> Iterator[LocalServer]:
    """Names are paths: `v1_models` is /v1/models."""
    local = LocalServer({f"/{name.replace('_', '/')}": value for name, value in answers.items()})

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            local.respond(self)

        def do_POST(self) -> None:
            local.respond(self)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        local.url = f"http://127.0.0.1:{listening.server_address[1]}/v1"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield local
        finally:
            listening.shutdown()
            thread.join()


@pytest.mark.parametrize("server", [None, LLAMA_CPP])
def test_llama_cpp_reports_the_window_of_a_slot(server: ServerProfile | None) -> None:
    with serving(props=PROPS) as local:
        assert served_window(local.url, "local", server=server) == ServedWindow(8_192, "/props")
    with serving(v1_models=LLAMA_MODELS) as local:
        assert served_window(local.url, "local", server=server) == ServedWindow(8_192, "/v1/models")


@pytest.mark.parametrize("server", [None, VLLM])
def test_vllm_lists_the_window_of_each_model(server: ServerProfile | None) -> None:
    with serving(v1_models=VLLM_MODELS) as local:
        assert served_window(local.url, "qwen", server=server) == ServedWindow(40_960, "/v1/models")
        assert served_window(local.url, "lora", server=server) is None
        assert served_window(local.url, "other", server=server) is None


@pytest.mark.parametrize("server", [None, OLLAMA])
def test_ollama_reports_the_window_of_a_loaded_model_then_the_set_then_the_trained_one(
    server: ServerProfile | None,
) -> None:
    with serving(api_ps=OLLAMA_PS, api_show=OLLAMA_SHOW) as local:
        assert served_window(local.url, "qwen3", server=server) == ServedWindow(4_096, "/api/ps")
        assert served_window(local.url, "qwen3:latest", server=server) == ServedWindow(4_096, "/api/ps")
        # Another model than the loaded one.
        assert served_window(local.url, "qwen3:32b", server=server) == ServedWindow(16_384, "/api/show")
        assert json.loads(local.asked[-1][1]) == {"model": "qwen3:32b"}
    with serving(api_ps={"models": []}, api_show=OLLAMA_TRAINED) as local:
        found = served_window(local.url, "qwen3", server=server)
        assert found is not None and found.tokens == 40_960
        assert "Ollama may give it less" in found.source
        assert [path for path, _, _ in local.asked].count("/api/show") == 1


@pytest.mark.parametrize(
    "answer",
    [
        [],
        "n_ctx",
        {"default_generation_settings": None},
        {"default_generation_settings": {"n_ctx": 0}},
        {"default_generation_settings": {"n_ctx": True}},
        {"default_generation_settings": {"n_ctx": "8192"}},
        {"data": [None, {"id": "local"}], "models": 7},
    ],
)
def test_an_answer_of_another_shape_says_nothing(answer: Json) -> None:
    with serving(props=answer, v1_models=answer, api_ps=answer, api_show=answer) as local:
        assert served_window(local.url, "local") is None


def test_a_key_is_sent_and_no_redirect_followed() -> None:
    with serving(props=PROPS) as elsewhere, serving(props=PROPS) as local:
        assert served_window(local.url, "local", key="k")
        assert local.asked == [("/props", "", "Bearer k")]
        local.status = 302
        local.headers = {"location": f"{elsewhere.url}/props"}
        assert served_window(local.url, "local", key="k") is None
        assert elsewhere.asked == []


def test_only_servers_on_this_machine_are_asked() -> None:
    """The net under all tests fails a connection to another host."""
    for url in (
        "http://192.168.1.5:8080/v1",
        "https://api.example.com/v1",
        "http://localhost.example.com/v1",
    ):
        assert served_window(url, "local") is None


def test_a_server_that_is_silent_or_gone_delays_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "QUERY_SECONDS", 0.05)
    with serving() as local:
        local.respond = lambda _: time.sleep(1)  # type: ignore[method-assign]
        started = time.monotonic()
        assert served_window(local.url, "local", server=LLAMA_CPP) is None
        assert time.monotonic() - started < 0.9
    assert served_window(local.url, "local") is None, "nothing listens there any more"


async def test_a_session_takes_the_window_of_its_server_unless_the_person_set_one(tmp_path: Path) -> None:
    with serving(props=PROPS) as local:
        environ = {
            "NACRE_HOME": str(tmp_path / "home"),
            "NACRE_MODEL": "openai/local",
            "OPENAI_BASE_URL": local.url,
        }
        settings = load(tmp_path, environ)
        async with open_agent(settings) as ready:
            assert ready.agent.session.window == 8_192
            assert len(ready.agent.session.base.tools) == 6, "the small profile"
        # Started again with another window.
        local.answers["/props"] = {"default_generation_settings": {"n_ctx": 65_536}}
        async with open_agent(settings) as ready:
            assert ready.agent.session.window == 65_536
        asked = len(local.asked)
        async with open_agent(load(tmp_path, {**environ, "NACRE_MAX_CONTEXT_TOKENS": "32768"})) as ready:
            assert ready.agent.session.window == 32_768
        async with open_agent(load(tmp_path, {**environ, "NACRE_MODEL": "gpt-6-luna"})) as ready:
            assert ready.agent.session.window > 65_536
        assert len(local.asked) == asked, "a known or set window is not asked for"


def test_doctor_says_where_the_window_comes_from(tmp_path: Path) -> None:
    def said(**environ: str) -> JsonObject:
        ended = nacre(tmp_path, "doctor", "--json", **environ)
        [check] = [one for one in json.loads(ended.stdout)["checks"] if one["name"] == "window"]
        return dict(check)

    with serving(props=PROPS) as local:
        model = {"NACRE_MODEL": "openai/local", "OPENAI_BASE_URL": local.url}
        assert said(**model)["message"] == "8,192 tokens: asked of the server, /props"
        set_lower = said(**model, NACRE_MAX_CONTEXT_TOKENS="8000")
        assert set_lower["message"] == (
            "8,000 tokens: maxContextTokens, environment NACRE_MAX_CONTEXT_TOKENS"
        )
        too_high = said(**model, NACRE_MAX_CONTEXT_TOKENS="32768")
        assert too_high["ok"] is False
        assert "maxContextTokens is 32,768, but the server has a window of 8,192" in str(too_high["message"])
        local.answers.clear()
        assert "200,000 tokens: assumed: " in str(said(**model)["message"])
    known = said(ANTHROPIC_API_KEY="k", NACRE_MODEL="claude-sonnet-5-5")
    assert "the table of models" in str(known["message"])
