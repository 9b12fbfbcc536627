"""Kill a download 200 times at random moments: python tests/endurance/download_kills.py [KILLS].

A file must never stand under its name before it is whole, no byte that arrived may be lost, and the last call ends it.
"""

import hashlib
import random
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CONTENT = random.Random(1).randbytes(4_000_000)
FETCH = """
import sys, pathlib
from kbbench_hf.files.download import PinnedFile, fetch
folder, url, size, sha256 = sys.argv[1:]
fetch([PinnedFile("a.bin", url, int(size), sha256)], pathlib.Path(folder), pause_seconds=0.01)
"""


class Handler(BaseHTTPRequestHandler):
    pause_seconds = 0.01
    asked = threading.Event()

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        start = int(asked.removeprefix("bytes=").rstrip("-")) if asked else 0
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        Handler.asked.set()
        try:
            for position in range(start, len(CONTENT), 4096):
                self.wfile.write(CONTENT[position : position + 4096])
                time.sleep(Handler.pause_seconds)
        except OSError:
            return  # the client was killed

    def log_message(self, *_: object) -> None:
        return


def main(kills: int) -> None:
    moments = random.Random(2)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server, tempfile.TemporaryDirectory() as folder:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        arguments = [
            folder,
            f"http://127.0.0.1:{server.server_port}/a",
            str(len(CONTENT)),
            hashlib.sha256(CONTENT).hexdigest(),
        ]
        command = [sys.executable, "-c", FETCH, *arguments]
        target, part = Path(folder, "a.bin"), Path(folder, "a.bin.part")
        arrived = 0
        for number in range(kills):
            running = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            Handler.asked.wait(30)
            Handler.asked.clear()
            time.sleep(moments.uniform(0, 0.1))
            running.kill()
            running.wait()
            if target.exists():
                print(f"whole after {number + 1} kills")
                break
            have = part.read_bytes() if part.exists() else b""
            assert len(have) >= arrived, (number, len(have), arrived)
            assert CONTENT.startswith(have), number
            arrived = len(have)
        print(f"{arrived:,} of {len(CONTENT):,} bytes before the last call")
        Handler.pause_seconds = 0
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        assert target.read_bytes() == CONTENT
        assert not part.exists()
        server.shutdown()
    print("held")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
