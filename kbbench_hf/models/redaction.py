"""Taking a key out of what a server sends back, in whatever form it is spelt there."""

import base64
import re

REDACTED = b"[redacted]"
_SHORTEST = 4
"""A shorter key is no secret, and would be found in every text."""
_ENTITIES = {"&": "amp", "<": "lt", ">": "gt", '"': "quot", "'": "apos", "=": "equals", "/": "sol", "+": "plus"}
_ENTITIES |= {":": "colon", ".": "period", "_": "lowbar", "-": "hyphen", "@": "commat", "%": "percnt", "#": "num"}
_ESCAPES = (b"\\", b"%", b"&")


class Redaction:
    r"""Takes one key out of bytes: as it is, escaped as in JSON, URLs or HTML, in base64 and as hexadecimal digits.

    >>> redact = Redaction("sk-a/b=")
    >>> redact(rb'{"key": "sk-a\/b\u003d", "url": "?key=sk-a%2Fb%3D", "page": "sk-a/b&#61;"}')
    b'{"key": "[redacted]", "url": "?key=[redacted]", "page": "[redacted]"}'
    """

    def __init__(self, key: str) -> None:
        self._plain: list[bytes] = []
        self._escaped: re.Pattern[bytes] | None = None
        if len(key) >= _SHORTEST:
            raw = key.encode()
            self._plain = [raw, *sorted({*_base64_of(raw)}), raw.hex().encode(), raw.hex().upper().encode()]
            self._escaped = re.compile("".join(map(_forms, key)).encode())

    def __call__(self, raw: bytes) -> bytes:
        """Return the bytes without the key."""
        for form in self._plain:
            if form in raw:
                raw = raw.replace(form, REDACTED)
        if self._escaped is not None and any(mark in raw for mark in _ESCAPES):
            raw = self._escaped.sub(REDACTED, raw)
        return raw


def _forms(character: str) -> str:
    """Return a pattern of all ways to write a character."""
    ways = [re.escape(character)] if character.isalnum() else [r"\\+" + re.escape(character), re.escape(character)]
    number = ord(character)
    ways += [rf"\\+u(?i:{number:04x})", rf"\\+x(?i:{number:02x})", rf"&#0*{number};", rf"&#[xX]0*(?i:{number:x});"]
    ways.append("".join(rf"%(?:25)*(?i:{byte:02x})" for byte in character.encode()))
    if character in _ENTITIES:
        ways.append(f"&{_ENTITIES[character]};")
    return f"(?:{'|'.join(ways)})"


def _base64_of(raw: bytes) -> list[bytes]:
    """Return what a key looks like inside base64, at each of the three places where it may begin."""
    found = []
    for shift in range(3):
        coded = base64.b64encode(b"\0" * shift + raw)
        first, whole = -(-shift * 8 // 6), (shift + len(raw)) * 8 // 6
        if whole - first >= _SHORTEST:
            found += [coded[first:whole], coded[first:whole].replace(b"+", b"-").replace(b"/", b"_")]
    return found
