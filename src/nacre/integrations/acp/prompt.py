"""The prompt of a client as text and pictures."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from nacre.formatting import fenced
from nacre.messages.blocks import Image
from nacre.messages.media import as_image

PromptBlock = (
    TextContentBlock
    | ImageContentBlock
    | AudioContentBlock
    | ResourceContentBlock
    | EmbeddedResourceContentBlock
)


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a person sends."""

    text: str
    images: tuple[Image, ...] = ()
    is_plain: bool = True
    """Nothing is attached, so that it can be a command."""


def read_prompt(blocks: Sequence[PromptBlock]) -> Prompt:
    """Return the text of a prompt with its resources, and its pictures; raises `ValueError` to refuse it.

    Links stay where they were written; the content of embedded resources follows the text.
    """
    written: list[str] = []
    attached: list[str] = []
    images: list[Image] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                written.append(block.text)
            case ImageContentBlock():
                images.append(_image(block.data))
            case ResourceContentBlock():
                written.append(link(block.uri))
            case EmbeddedResourceContentBlock(resource=TextResourceContents() as file):
                written.append(link(file.uri))
                attached.append(f"{link(file.uri)}:\n{fenced(file.text)}")
            case EmbeddedResourceContentBlock(resource=BlobResourceContents() as blob):
                written.append(link(blob.uri))
                images.append(_image(blob.blob))
            case _:
                raise ValueError("audio is not supported; send text, pictures and files")
    text = "\n\n".join(part for part in ("".join(written).strip(), *attached) if part)
    if not text and images:
        text = "See the picture."
    if not text:
        raise ValueError("the prompt is empty; send some text")
    return Prompt(text, tuple(images), is_plain=all(isinstance(one, TextContentBlock) for one in blocks))


def link(uri: str) -> str:
    """Return what a resource is called in a text: the path of a file, else its address."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return uri
    # The editor names the selected lines of a file after #, such as L10:20.
    lines = f" ({parts.fragment})" if parts.fragment else ""
    return unquote(parts.path) + lines


def _image(data: str) -> Image:
    try:
        return as_image(base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"an attached file cannot be sent: {error}") from error
