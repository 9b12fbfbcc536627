"""Identification of a chat server (vLLM, SGLang, TGI, llama.cpp, Ollama, hosted services): kind, version, weights.

Only facts count that are neither secret nor change during a run.
"""

from collections.abc import Awaitable, Callable, Mapping
from urllib.parse import urlsplit

Page = Callable[[str, bool], Awaitable[Mapping[str, object]]]
"""(URL, whether its faults are raised) -> the JSON object there, empty where there is no such page."""


async def server_facts(page: Page, base_url: str, model: str) -> dict[str, str]:
    """Return `kind` ("vllm", "tgi", "tei", ... or "openai-compatible"), version, served model and revision where known.

    Requests: GETs only, none of them paid.
    """
    listed = await page(f"{base_url}/models", True)
    cards = listed.get("data")
    models = [card for card in cards if isinstance(card, dict)] if isinstance(cards, list) else []
    names = (model, model.partition(":")[0])  # routers append ":PROVIDER"
    only = models[0] if len(models) == 1 else {}
    card = next((card for card in models if card.get("id") in names), only)
    site, owner = base_url.rpartition("/v")[0], card.get("owned_by")
    facts = {"kind": "openai-compatible", **_strings(card, root="served_model")}
    if owner == "vllm":
        return facts | {"kind": "vllm", **_strings(await page(f"{site}/version", True), version="version")}
    if owner == "sglang":
        about, info = await page(f"{site}/get_model_info", False), await page(f"{site}/get_server_info", False)
        return facts | {
            "kind": "sglang",
            **_strings(about, model_path="served_model"),
            **_strings(info, version="version"),
        }
    if host := _HOSTS.get(urlsplit(base_url).hostname or ""):
        return facts | {"kind": host}
    info = await page(f"{site}/info", True)
    if "model_id" in info:
        facts |= _strings(info, version="version", model_id="served_model", model_sha="revision")
        return facts | {"kind": "tei" if isinstance(info.get("model_type"), dict) else "tgi"}
    props = await page(f"{site}/props", False)
    if "default_generation_settings" in props or "build_info" in props:
        return facts | {"kind": "llama.cpp", **_strings(props, build_info="version", model_path="served_model")}
    version = await page(f"{site}/api/version", False)
    tags = (await page(f"{site}/api/tags", False)).get("models") if "version" in version else None
    if isinstance(tags, list):
        tag = next((tag for tag in tags if isinstance(tag, dict) and _is_tag(tag, model)), {})
        return facts | {"kind": "ollama", **_strings(version, version="version"), **_strings(tag, digest="revision")}
    return facts


_HOSTS = {
    "router.huggingface.co": "hf-router",
    "openrouter.ai": "openrouter",
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.together.xyz": "together",
    "api.deepseek.com": "deepseek",
}
"""Host -> kind, of services without a page about themselves."""


def _is_tag(tag: Mapping[str, object], model: str) -> bool:
    return any(tag.get(name) in (model, f"{model}:latest") for name in ("name", "model"))


def _strings(source: Mapping[str, object], **names: str) -> dict[str, str]:
    """Return the strings among these members, at most 300 characters each, under their new names."""
    return {new: value[:300] for name, new in names.items() if isinstance(value := source.get(name), str)}
