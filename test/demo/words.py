"""Reads a text and returns what it found. `inputs` comes from the caller, `_return` goes back to it."""
import collections
import re

with open(inputs["path"], encoding="utf-8") as text:
    lines = text.read().splitlines()

words = [word.lower() for line in lines for word in re.findall(r"[A-Za-z']+", line)]
names = collections.Counter(word for word in words if len(word) >= inputs["letters"])
print(f"{len(lines)} lines, {len(words)} words, {len(set(words))} different ones")

_return = {
    "lines": len(lines),
    "fields": sum(len(line.split()) for line in lines),
    "most": names.most_common(inputs["top"]),
    "longest": max(words, key=len),
}
