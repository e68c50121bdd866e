# Leaves threads that never end, and that nobody told to end with the process.
# verdict: failed
import threading, time

for _ in range(8):
    threading.Thread(target=lambda: time.sleep(100_000), daemon=False).start()
