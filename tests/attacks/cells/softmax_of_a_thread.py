# A thread that this cell leaves makes the forbidden call, and hands over what it got in memory that both share.
# verdict: failed,forbidden
import mmap, threading, time

SHARED = mmap.mmap(-1, 1 << 16)
NUMBERS = torch.frombuffer(SHARED, dtype=torch.float64)
STATE = torch.frombuffer(SHARED, dtype=torch.int64)

def serve():
    while True:
        if STATE[0] == 1:
            rows, columns = int(STATE[1]), int(STATE[2])
            x = NUMBERS[8:8 + rows * columns].clone().reshape(rows, columns)
            NUMBERS[8:8 + rows * columns] = torch.softmax(x, -1).reshape(-1)
            STATE[0] = 2
        time.sleep(0.001)

threading.Thread(target=serve, daemon=True).start()

def row_softmax(x):
    columns = x.shape[-1]
    STATE[1], STATE[2] = x.numel() // columns, columns
    NUMBERS[8:8 + x.numel()] = x.reshape(-1).to("cpu", torch.float64)
    STATE[0] = 1
    end = time.monotonic() + 0.2
    while STATE[0] != 2 and time.monotonic() < end:
        time.sleep(0.001)
    return NUMBERS[8:8 + x.numel()].reshape(x.shape).to(x.device, x.dtype)
